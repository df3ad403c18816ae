"""`muster.function`: traces a Python function once, and then calls it compiled."""
