"""Canned Estimators."""
