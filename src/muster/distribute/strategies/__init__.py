"""One strategy a file: each chooses workers, a placement and an engine."""
