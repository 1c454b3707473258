"""Long proofs: `make soak` runs them whole, CI in a shortened form."""
