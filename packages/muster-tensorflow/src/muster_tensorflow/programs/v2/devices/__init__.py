"""Devices and their memory, and strategies that run on them."""
