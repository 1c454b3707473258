"""Long proofs: `make soak` runs them, and those that are marked so elsewhere; with `ARGS` a part of them, one by one:

`FETCHER_SOAK_JOBS=12 FETCHER_SOAK_SECONDS=6 make soak ARGS=tests/soak/test_load.py`
"""
