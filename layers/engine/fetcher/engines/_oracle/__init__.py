"""What `oracle.py` is made of: opening, names, catalog, types, values, statements, rows and errors."""
