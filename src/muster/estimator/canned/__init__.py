"""Canned Estimators: models that need no model_fn."""
