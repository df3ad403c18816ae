"""Partition a step over the global batch among workers."""
