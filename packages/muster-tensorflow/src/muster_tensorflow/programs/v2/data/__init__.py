"""Loops over datasets, datasets from folders, and tables for them."""
