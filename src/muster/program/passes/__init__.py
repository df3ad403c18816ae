"""Rewrite jaxprs, and cut them into parts."""
