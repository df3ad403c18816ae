"""`muster.function`: traces user code once and calls it compiled."""
