"""Arithmetic, special functions and signals."""
