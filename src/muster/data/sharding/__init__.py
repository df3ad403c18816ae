"""Divides a dataset's files or elements among workers."""
