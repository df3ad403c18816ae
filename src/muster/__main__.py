"""The command ``muster``."""
