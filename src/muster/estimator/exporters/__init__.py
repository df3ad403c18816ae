"""Exporters: what is done with a model after an evaluation."""
