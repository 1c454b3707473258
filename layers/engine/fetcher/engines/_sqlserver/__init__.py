"""What `sqlserver.py` is made of: driver, opening, catalog, values, statements and errors."""
