"""What `mysql.py` is made of: opening, catalog, values, statements, the wire, and errors."""
