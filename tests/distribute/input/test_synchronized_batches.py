"""Batches of several workers, divided among the replicas of each."""

import numpy as np
from linked import together

from muster.distribute.engine._split import UnevenBatch
from muster.distribute.input._synchronized_batches import SynchronizedBatches


def test_equal_batches_that_a_workers_replicas_cannot_share_are_everybodys():
    def steps(link):
        batches = [np.full(rows, link.rank, np.float32) for rows in (4, 3, 2)]
        return list(SynchronizedBatches(iter(batches), batches[0], link, None, local_replicas=2))

    for rank, (first, second, third) in enumerate(together(2, steps)):
        np.testing.assert_array_equal(first, np.full(4, rank))
        assert isinstance(second, UnevenBatch)
        np.testing.assert_array_equal(second.batch, [0, 0, 0, 1, 1, 1])
        np.testing.assert_array_equal(third, np.full(2, rank))
