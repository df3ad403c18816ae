"""Exporters, which write a model after an evaluation."""
