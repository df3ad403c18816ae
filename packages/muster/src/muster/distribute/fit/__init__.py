"""``fit``, ``evaluate`` and ``predict`` of Keras models under a strategy."""

from muster.distribute.fit._keras_hooks import scope_of_model as scope_of_model
from muster.distribute.fit._keras_hooks import takes_own_step as takes_own_step
