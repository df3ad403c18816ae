"""Datasets by whose code tests see and hold what workers do; workers are threads of this process."""

import threading

import numpy as np

from muster.data import Dataset

_DEADLINE = 60.0


class Gate:
    """Where an element of a dataset is made once it is let through.

    Attributes:
        reached: Whether a worker waits for the element, or has got it.
        released: Lets the element be made.
    """

    def __init__(self):
        self.reached, self.released = threading.Event(), threading.Event()


GATES: dict[int, Gate] = {}
MEETINGS: dict[object, threading.Barrier] = {}


def gated(number):
    """A dataset of one element, its number, which is made when the gate of this number is released."""

    def elements():
        gate = GATES[number]
        gate.reached.set()
        gate.released.wait(_DEADLINE)
        yield np.int32(number)

    return Dataset.from_generator(elements, output_types=np.int32, output_shapes=())


def meeting(name):
    """A dataset of one element, which is made when two workers have asked for it."""

    def elements():
        MEETINGS[name].wait(_DEADLINE)
        yield np.int32(0)

    return Dataset.from_generator(elements, output_types=np.int32, output_shapes=())


def failing():
    """A dataset whose first element raises an error."""

    def elements():
        raise ValueError("boom")
        yield

    return Dataset.from_generator(elements, output_types=np.int32, output_shapes=())
