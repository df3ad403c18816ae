"""The one place that touches what Keras keeps to itself: the counters behind automatic names.

A model_fn builds its model anew at every call, so ``dense`` would become ``dense_1`` at the second.
Keras offers ``clear_session``, which also forgets what the user built elsewhere, and nothing to save and
restore the counters. Tried on keras 3.15.1; ``tests/program/test_keras_names.py`` fails when this changes.
"""

import collections
import contextlib
from collections.abc import Iterator

from keras.src.backend.common import global_state

_COUNTERS = "object_name_uids"


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
    """Let automatic names start from nothing, and put the counters back afterwards."""
    saved = global_state.get_global_attribute(_COUNTERS)
    global_state.set_global_attribute(_COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTERS, saved)
