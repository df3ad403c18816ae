"""Formats of data files, and sources that read them."""

from muster.data.files._example import example_message_class as example_message_class
