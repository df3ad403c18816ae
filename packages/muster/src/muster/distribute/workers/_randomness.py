"""The process-wide random states, and the chief's for all workers of a job.

Programs draw data and initial values from them. Where nothing has seeded them, each process would draw its
own, and the workers of a job would not have the batches that they share.
"""

import random
from typing import Any

import numpy as np

from muster.distribute.workers._workers import Workers
from muster.program.variables.keras_internals import global_seed_state, set_global_seed_state


def random_state() -> list[Any]:
    """Return the process-wide random state of NumPy and of Python, as JSON."""
    name, keys, position, has_gauss, gauss = np.random.get_state()
    return [[name, np.asarray(keys).tolist(), position, has_gauss, gauss], random.getstate()]


def set_random_state(state: list[Any]) -> None:
    """Set a state that ``random_state`` has returned."""
    numpy_state, (version, internal, gauss) = state
    np.random.set_state(tuple(numpy_state))
    random.setstate((version, tuple(internal), gauss))


def take_chiefs_randomness(workers: Workers) -> None:
    """Set the process-wide random states of NumPy, of Python and of Keras to the chief's.

    All workers call this, when they have met. A worker that seeds its own afterwards keeps those.
    """
    if workers.size == 1:
        return  # alone, or to join others, who will give it their state
    # Where workers come and go, the chief may be another one when all have answered.
    has_to = workers.is_chief or workers.share is not None
    states = [random_state(), global_seed_state()] if has_to else None
    (shared, keras_state), *_ = workers.all_gather_object(states)
    if not workers.is_chief:
        set_global_seed_state(keras_state)  # first: Keras makes a generator by Python's random numbers
        set_random_state(shared)
