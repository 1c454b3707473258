"""What `mongodb.py` is made of: client, errors, catalog, filters, keys, values and the stream of batches."""
