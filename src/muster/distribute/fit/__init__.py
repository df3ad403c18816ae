"""``fit``, ``evaluate`` and ``predict`` of Keras models under a strategy."""

from muster.distribute.fit._fit import scope_of_model as scope_of_model
