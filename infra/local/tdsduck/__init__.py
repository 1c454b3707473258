"""A stand-in for SQL Server: its wire protocol in front of DuckDB. Runs in a venv of its own (`.venvs/tds`).

It answers what Microsoft's driver and our engine say: logins, batches, prepared statements with text and integer
parameters, attention, errors by their numbers, transactions with one snapshot, and the catalog views that discovery
reads. Below that it is DuckDB: no collations but the binary one, microseconds, no hierarchyid, xml or sql_variant.
"""
