"""What `postgresql.py` is made of: errors, catalog, values and the stream of rows."""
