"""``fit``, ``evaluate`` and ``predict`` of Keras models under a strategy."""
