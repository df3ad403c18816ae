"""Errors of functions are those that the program raises."""

import numpy as np
import pytest

from muster import TraceError
from muster.distribute import function


def test_they_keep_their_causes():
    @function
    def failing(x):
        try:
            {}["missing"]
        except KeyError as exc:
            raise ValueError("This configuration is wrong.") from exc
        return x

    with pytest.raises(ValueError, match="configuration") as raised:
        failing(np.ones(2))
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_result_of_64_bits_is_not_truncated():
    @function
    def large(x):
        return {"sum": x + 1, "id": np.array([1, 3_000_000_000])}

    with pytest.raises(TraceError, match="returns 3000000000, a number of type int64 that does not fit"):
        large(np.ones(2, np.float32))
    assert function(lambda: np.int64(7))() == 7
