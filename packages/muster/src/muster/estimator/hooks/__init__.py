"""Hooks that are called around the steps of training, evaluation and prediction, one kind a file."""
