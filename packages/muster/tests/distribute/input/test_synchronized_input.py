"""Batches of several workers, divided among the replicas of each."""

import numpy as np

from linked import together
from muster.distribute.engine._split import UnevenBatch
from muster.distribute.input import Position, StepInput
from muster.distribute.input._synchronized_input import SynchronizedInput


class Given(StepInput):
    """Batches that are in memory."""

    share = "what the test gives"

    def __init__(self, *batches):
        self.example, self.left = batches[0], iter(batches)

    def __next__(self):
        return next(self.left)

    def position(self, steps=None):
        return Position()


def test_equal_batches_that_a_workers_replicas_cannot_share_are_everybodys():
    def steps(link):
        batches = [np.full(rows, link.rank, np.float32) for rows in (4, 3, 2)]
        return list(SynchronizedInput(Given(*batches), link, None, local_replicas=2))

    for rank, (first, second, third) in enumerate(together(2, steps)):
        np.testing.assert_array_equal(first, np.full(4, rank))
        assert isinstance(second, UnevenBatch)
        np.testing.assert_array_equal(second.batch, [0, 0, 0, 1, 1, 1])
        np.testing.assert_array_equal(third, np.full(2, rank))


def test_rows_of_workers_may_differ_in_length():
    def steps(link):
        width = 2 + link.rank
        batches = [np.full((rows, width), link.rank, np.float32) for rows in (2, 1 + link.rank)]
        return list(SynchronizedInput(Given(*batches), link, None))

    for rank, (first, second) in enumerate(together(2, steps)):
        np.testing.assert_array_equal(first, np.full((2, 2 + rank), rank))
        np.testing.assert_array_equal(second.batch, [[0, 0, 0], [1, 1, 1], [1, 1, 1]])


def test_rows_of_a_worker_without_a_batch_are_filled_up():
    def steps(link):
        batches = [np.ones((2, 2 + link.rank), np.float32) for _ in range(1 + link.rank)]
        return list(SynchronizedInput(Given(*batches), link, None))

    for _, second in together(2, steps):
        np.testing.assert_array_equal(second, np.ones((1, 3)))
