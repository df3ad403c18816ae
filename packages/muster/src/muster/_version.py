"""The version of muster."""

__version__ = "0.1.0"
