"""Rewrites a finished jaxpr."""
