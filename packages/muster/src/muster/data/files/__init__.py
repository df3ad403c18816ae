"""Formats of data files, and sources that read them."""
