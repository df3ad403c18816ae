"""What TensorFlow 1's optimizers do without gradients, and with a global step."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from muster.program.trace._program import Program
from recorded import cases

OPTIMIZERS = {
    "v1.GradientDescent": tf.compat.v1.train.GradientDescentOptimizer,
}


def applied(optimizer: Any, start: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    """Return the variables after one step on gradients, by name."""

    def step(_: Any) -> tuple[dict[str, Any], None]:
        variables = [tf.Variable(np.asarray(value, np.float32), name=name) for name, value in start.items()]
        given = [None if each is None else jnp.asarray(each, jnp.float32) for each in gradients.values()]
        optimizer().apply_gradients(list(zip(given, variables, strict=True)))
        return {}, None

    program = Program(step, jnp.zeros(()))
    return program.step(program.initial, jnp.zeros(()))[0]


def has_a_missing_gradient(case: dict[str, Any]) -> bool:
    return case["name"] == "v1.GradientDescent/one_gradient_is_None"


@pytest.mark.filterwarnings("ignore:Gradients do not exist")  # Keras says so, like TensorFlow's
@pytest.mark.parametrize("case", cases("optimizers", has_a_missing_gradient))
def test_a_variable_without_gradient_stays(case: dict[str, Any]) -> None:
    given = case["input"]
    kind, rate = OPTIMIZERS[given["optimizer"]], given["learning_rate"]
    state = applied(lambda: kind(rate), given["start"], given["gradients"])
    for name, value in case["expect"].items():
        np.testing.assert_allclose(state[name], value)


def is_refused(case: dict[str, Any]) -> bool:
    return case["name"] in ("v1.GradientDescent/all_gradients_None", "v1.GradientDescent/empty_list")


@pytest.mark.parametrize("case", cases("optimizers", is_refused))
def test_a_step_without_gradients_is_refused(case: dict[str, Any]) -> None:
    kind = OPTIMIZERS[case["input"]["optimizer"]]
    gradients = case["input"]["gradients"] or {}
    # What follows names variables in TensorFlow's way.
    message = case["expect"]["error"]["message"].partition(" for any variable: ")[0].rstrip(".")
    with pytest.raises(ValueError, match=message):
        applied(lambda: kind(0.5), dict.fromkeys(gradients, [1.0]), gradients)


def counts(case: dict[str, Any]) -> bool:
    return case["name"] == "v1.GradientDescent/global_step"


@pytest.mark.parametrize("case", cases("optimizers", counts))
def test_the_global_step_counts(case: dict[str, Any]) -> None:
    given = case["input"]

    def step(gradient: Any) -> tuple[dict[str, Any], None]:
        weights = tf.Variable(np.asarray(given["start"], np.float32), name="w")
        optimizer = OPTIMIZERS["v1.GradientDescent"](**given["optimizer"]["kwargs"])
        optimizer.apply_gradients([(gradient, weights)], tf.compat.v1.train.get_or_create_global_step())
        return {}, None

    program = Program(step, jnp.zeros(2), known={"global_step": np.int32(given["global_step"])})
    state = program.initial
    for gradient in given["gradients"]:
        state, _ = program.step(state, jnp.asarray(gradient))
    np.testing.assert_allclose(state["w"], case["expect"]["weights"])
    assert state["global_step"] == case["expect"]["global_step"]
