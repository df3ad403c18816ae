"""Strings, their characters and their hashes, on the host."""
