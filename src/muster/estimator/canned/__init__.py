"""Canned Estimators, which bring their model."""
