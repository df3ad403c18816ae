"""Sessions, their configuration, and what a program sets up for them."""
