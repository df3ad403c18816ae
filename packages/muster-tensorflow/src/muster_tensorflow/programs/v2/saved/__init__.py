"""Saved models and modules: their functions, signatures and layers."""
