"""Runs the steps of train, evaluate and predict."""
