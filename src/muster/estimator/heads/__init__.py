"""Heads: loss, metrics and predictions for a kind of label."""
