"""TensorFlow's methods of iterators."""

import numpy as np
import pytest

from muster._errors import OutOfRangeError
from muster.data import Dataset, TensorSpec


def test_iterators_have_the_methods_of_tensorflows() -> None:
    iterator = iter(Dataset.range(2))
    assert iterator.element_spec == TensorSpec((), np.int64)
    assert iterator.get_next() == 0
    assert iter(Dataset.range(2)).next() == 0
    last = iterator.get_next_as_optional()
    assert last.has_value()
    assert last.get_value() == 1
    assert iterator.position["elements"] == 2
    nothing = iterator.get_next_as_optional()
    assert not nothing.has_value()
    with pytest.raises(ValueError, match="has_value"):
        nothing.get_value()
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        iterator.get_next()
