"""Ragged tensors: how to make, reshape and compute with them."""
