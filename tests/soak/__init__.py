"""Long proofs: `make soak` runs them, or a part of them:

`FETCHER_SOAK_JOBS=12 FETCHER_SOAK_SECONDS=6 make soak ARGS=tests/soak/test_load.py`
"""
