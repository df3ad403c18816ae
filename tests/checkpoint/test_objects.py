"""Variables of objects: their names in a checkpoint, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from muster import CheckpointMismatchError
from muster._keras import keras
from muster.checkpoint import list_variables, read_checkpoint, write_checkpoint
from muster.checkpoint.objects import assign_saved, copied_values


def test_a_model_is_restored_that_was_built_otherwise(tmp_path: Path) -> None:
    called = keras.Sequential([keras.layers.Dense(2)])
    called(np.ones((1, 3)))
    path = write_checkpoint(tmp_path, 1, copied_values({"model": called.variables}), {})
    assert list(list_variables(path)) == ["model/0", "model/1"]

    inputs = keras.Input((3,))
    functional = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert functional.variables[0].path != called.variables[0].path
    assign_saved(read_checkpoint(path), {"model": functional.variables}, "")
    np.testing.assert_array_equal(functional.variables[0], called.variables[0])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2,), (4,)], r"variable net/1 \(.*\) has shape \(3,\); here it has shape \(4,\). Look again."),
        ([(2,), (3,), (1,)], r"variable net/2 \(.*\) is not there; here"),
        ([(2,)], "has 1 variables that are not here, such as net/1. Look again."),
    ],
)
def test_another_model_is_refused_before_anything_is_set(
    tmp_path: Path, shapes: list[tuple[int, ...]], message: str
) -> None:
    path = write_checkpoint(tmp_path, 1, {"net/0": np.ones(2), "net/1": np.ones(3)}, {})
    variables = [keras.Variable(np.zeros(shape)) for shape in shapes]
    with pytest.raises(CheckpointMismatchError, match=message):
        assign_saved(read_checkpoint(path), {"net": variables}, "Look again.")
    assert not any(np.any(variable) for variable in variables)
