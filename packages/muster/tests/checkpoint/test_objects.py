"""Variables of objects: their names in a checkpoint, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from muster import CheckpointMismatchError
from muster._keras import keras
from muster.checkpoint import list_variables, read_checkpoint, write_checkpoint
from muster.checkpoint.objects import assign_saved, copied_values, named_variables, unique_path


def test_a_model_is_restored_that_was_built_otherwise(tmp_path: Path) -> None:
    called = keras.Sequential([keras.layers.Dense(2, name="out")], name="net")
    called(np.ones((1, 3)))
    path = write_checkpoint(tmp_path, 1, copied_values(named_variables({"model": called.variables})), {})
    assert list(list_variables(path)) == ["model/net/out/kernel", "model/net/out/bias"]

    inputs = keras.Input((3,))
    functional = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert functional.variables[0].path != called.variables[0].path
    assign_saved(read_checkpoint(path), {"model": functional.variables}, "")
    np.testing.assert_array_equal(functional.variables[0], called.variables[0])


def test_names_are_unique_and_their_order_is_kept(tmp_path: Path) -> None:
    assert [unique_path("w", ()), unique_path("w", {"w"}), unique_path("w", {"w", "w_1"})] == [
        "w",
        "w_1",
        "w_2",
    ]
    # The data file has wide types first, and Python's sets have an order of their own.
    values = [np.arange(2, dtype=dtype) for dtype in ("int8", "float32", "int16", "uint32", "float16")]
    net = [keras.Variable(value, dtype=value.dtype.name, name="w") for value in values]
    step = keras.Variable(7, dtype="int32", name="step")
    path = write_checkpoint(tmp_path, 1, copied_values(named_variables({"net": net, "step": [step]})), {})
    assert list(list_variables(path)) == ["net/w", "net/w_1", "net/w_2", "net/w_3", "net/w_4", "step/step"]

    for variable in [*net, step]:
        variable.assign(variable * 0)
    assign_saved(read_checkpoint(path), {"step": [step], "net": net}, "")
    assert int(step) == 7
    for variable, value in zip(net, values, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_the_name_of_an_object_has_no_slash() -> None:
    with pytest.raises(ValueError, match="cannot be called 'a/b'"):
        named_variables({"a/b": [keras.Variable(1.0)]})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            [(2,), (4,)],
            r"variable net/b is net/y there, of shape \(3,\); here it has shape \(4,\). Look again.",
        ),
        ([(2,), (3,), (1,)], r"variable net/c is not there; here"),
        ([(2,)], "has 1 variables that are not here, such as net/y. Look again."),
    ],
)
def test_another_model_is_refused_before_anything_is_set(
    tmp_path: Path, shapes: list[tuple[int, ...]], message: str
) -> None:
    path = write_checkpoint(tmp_path, 1, {"net/x": np.ones(2), "net/y": np.ones(3)}, {})
    variables = [
        keras.Variable(np.zeros(shape), name=name) for shape, name in zip(shapes, "abc", strict=False)
    ]
    with pytest.raises(CheckpointMismatchError, match=message):
        assign_saved(read_checkpoint(path), {"net": variables}, "Look again.")
    assert not any(np.any(variable) for variable in variables)
