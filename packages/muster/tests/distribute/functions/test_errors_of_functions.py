"""Errors of functions are those that the program raises."""

import numpy as np
import pytest

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
