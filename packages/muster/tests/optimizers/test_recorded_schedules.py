"""Keras' schedules, and what optimizers do without gradients."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from muster import keras, optimizers
from muster.program.trace._program import Program
from recorded import cases

OPTIMIZERS = {
    "keras.SGD": keras.optimizers.SGD,
    "keras.legacy.SGD": optimizers.SGD,
}


@pytest.mark.parametrize("case", cases("optimizers", lambda case: case["name"].startswith("schedule/keras.")))
def test_schedules_are_those_of_tensorflow(case: dict[str, Any]) -> None:
    schedule = getattr(keras.optimizers.schedules, case["input"]["schedule"].rpartition(".")[2])
    rates = [schedule(**case["input"]["kwargs"])(jnp.int32(step)) for step in case["input"]["steps"]]
    np.testing.assert_allclose(rates, case["expect"]["values"], rtol=1e-5)


def applied(optimizer: Any, start: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    """Return the variables after one step on gradients, by name."""

    def step(_: Any) -> tuple[dict[str, Any], None]:
        variables = [
            keras.Variable(np.asarray(value, np.float32), name=name) for name, value in start.items()
        ]
        given = [None if each is None else jnp.asarray(each, jnp.float32) for each in gradients.values()]
        optimizer().apply_gradients(list(zip(given, variables, strict=True)))
        return {}, None

    program = Program(step, jnp.zeros(()))
    return program.step(program.initial, jnp.zeros(()))[0]


def has_a_missing_gradient(case: dict[str, Any]) -> bool:
    return case["name"].startswith("keras.") and case["name"].endswith("/one_gradient_is_None")


@pytest.mark.filterwarnings("ignore:Gradients do not exist")  # Keras says so, like TensorFlow's
@pytest.mark.parametrize("case", cases("optimizers", has_a_missing_gradient))
def test_a_variable_without_gradient_stays(case: dict[str, Any]) -> None:
    given = case["input"]
    kind, rate = OPTIMIZERS[given["optimizer"]], given["learning_rate"]
    state = applied(lambda: kind(rate), given["start"], given["gradients"])
    for name, value in case["expect"].items():
        np.testing.assert_allclose(state[name], value)


def is_refused(case: dict[str, Any]) -> bool:
    return case["name"].startswith("keras.") and case["name"].endswith("/all_gradients_None")


@pytest.mark.parametrize("case", cases("optimizers", is_refused))
def test_a_step_without_gradients_is_refused(case: dict[str, Any]) -> None:
    kind = OPTIMIZERS[case["input"]["optimizer"]]
    gradients = case["input"]["gradients"] or {}
    # What follows names variables in TensorFlow's way.
    message = case["expect"]["error"]["message"].partition(" for any variable: ")[0].rstrip(".")
    with pytest.raises(ValueError, match=message):
        applied(lambda: kind(0.5), dict.fromkeys(gradients, [1.0]), gradients)


def is_nothing_to_do(case: dict[str, Any]) -> bool:
    return case["name"].startswith("keras.") and case["name"].endswith("/empty_list")


@pytest.mark.parametrize("case", cases("optimizers", is_nothing_to_do))
def test_no_variables_are_nothing_to_do(case: dict[str, Any]) -> None:
    state = applied(lambda: OPTIMIZERS[case["input"]["optimizer"]](0.5), {}, {})
    assert next(value for path, value in state.items() if path.endswith("/iteration")) == 0


def mismatches(case: dict[str, Any]) -> bool:
    return case["name"].endswith("/shape_mismatch")


@pytest.mark.parametrize("case", cases("optimizers", mismatches))
def test_a_gradient_of_another_shape_is_refused(case: dict[str, Any]) -> None:
    assert case["input"]["gradients"] == "shape [3] for a variable of shape [2]"
    with pytest.raises(ValueError, match=r"gradient.*shape \(3,\).*variable.*shape \(2,\)"):
        applied(lambda: OPTIMIZERS["keras.legacy.SGD"](0.5), {"a": [1.0, 2.0]}, {"a": [1.0, 2.0, 3.0]})
