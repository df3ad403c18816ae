"""Divides datasets among workers and replicas."""
