"""Batches that are handed out by number, without servers."""

import numpy as np
import pytest

from muster.data import Dataset
from muster.distribute.input import BatchNumbers, DispatchedInput, Position


class Counted(BatchNumbers):
    """Hands out all numbers to one worker."""

    def __init__(self):
        self.next, self.ends = 0, []
        self._position = Position()

    def share(self, position):
        self._position = position

    def share_nothing(self):
        raise NotImplementedError

    @property
    def position(self):
        return self._position

    def take(self):
        if self.ends:
            raise StopIteration
        self.next += 1
        return self.next - 1

    def end_at(self, number):
        self.ends.append(number)

    def left_open(self, variables):
        return []


def opened(numbers, generator):
    dataset = Dataset.from_generator(generator, output_types=np.int32)
    place = Position(begin=0)
    return DispatchedInput(
        dataset, numbers, place, seed=1, convert=lambda elements: elements, check=lambda first: None
    )


def test_a_pass_ends_at_the_first_number_without_a_batch():
    numbers = Counted()
    with opened(numbers, lambda: iter(range(3))) as batches:
        assert batches.example == 0
        assert [int(each) for each in batches] == [0, 1, 2]
    assert numbers.ends == [3]


def test_an_index_error_of_the_dataset_is_raised_and_ends_no_pass():
    def rows():
        yield 0
        yield [][1]

    numbers = Counted()
    with opened(numbers, rows) as batches:
        assert int(next(batches)) == 0
        with pytest.raises(IndexError, match="list index out of range"):
            next(batches)
    assert numbers.ends == []
