"""The command line `fetcher`: a client of the HTTP API, and an offline verifier. It is not part of the layer."""
