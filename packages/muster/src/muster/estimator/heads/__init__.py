"""Heads: loss, metrics and predictions for one kind of label each."""
