"""Keras' optimizers, and those that leave rows, update weights as TensorFlow's do."""

import re
from typing import Any

import jax
import numpy as np
import pytest

import recorded
from departures import Departure, Json
from muster import keras, optimizers
from muster.program.trace._program import Program
from recorded import IN_REPOSITORY, cases, load

PACKAGES = {
    "tf.keras.optimizers": keras.optimizers,
    "tf.keras.optimizers.legacy": optimizers,
}


def is_dense_update(case: dict[str, Any]) -> bool:
    return case["name"].startswith("keras.") and "/dense/" in case["name"]


def optimizer_of(case: dict[str, Any]) -> str:
    given = case["input"]["optimizer"]
    return f"{given['class']}({given['kwargs']})"


def made(case: dict[str, Any], name: str) -> Any:
    given = case["input"]["optimizer"]
    package, _, kind = given["class"].rpartition(".")
    kwargs = dict(given["kwargs"])
    if isinstance(kwargs.get("learning_rate"), str):
        schedule, arguments = re.fullmatch(r"(\w+)\((.*)\)", kwargs["learning_rate"]).groups()
        pairs = [pair.split("=") for pair in arguments.split(", ")]
        numbers = {key: True if value == "True" else float(value) for key, value in pairs}
        kwargs["learning_rate"] = getattr(keras.optimizers.schedules, schedule)(**numbers)
    return getattr(PACKAGES[package], kind)(name=name, **kwargs)


def _average_from_first_step(asked: Json, expect: Json) -> Json | None:
    given = asked["optimizer"]["kwargs"] if isinstance(asked.get("optimizer"), dict) else {}
    if not given.get("use_ema"):
        return None
    weights, average, seen = np.asarray(asked["start"], np.float32), None, []
    mean, squares = np.zeros_like(weights), np.zeros_like(weights)
    for number, gradient in enumerate(np.asarray(asked["gradients"], np.float32), 1):
        mean, squares = 0.9 * mean + 0.1 * gradient, 0.999 * squares + 0.001 * gradient**2
        rate = given["learning_rate"] * np.sqrt(1 - 0.999**number) / (1 - 0.9**number)
        weights = weights - rate * mean / (np.sqrt(squares) + 1e-7)
        momentum = given["ema_momentum"]
        average = weights if average is None else momentum * average + (1 - momentum) * weights
        if number % given["ema_overwrite_frequency"] == 0:
            weights = average
        seen.append(weights.tolist())
    return expect | {"weights_after_step": seen}


DEPARTURES = [
    Departure(
        "Keras 3's average of weights starts with those after the first step.", _average_from_first_step
    )
]


def test_all_departures_are_needed() -> None:
    assert recorded.unused("optimizers", DEPARTURES) == []


CASES = {optimizer_of(case): case for case in load("optimizers", IN_REPOSITORY) if is_dense_update(case)}
FIRST = next(iter(CASES.values()))["input"]
START, GRADIENTS = (np.asarray(FIRST[key], np.float32) for key in ("start", "gradients"))


@pytest.fixture(scope="module")
def updated() -> list[dict[str, Any]]:
    """The values of a variable for each optimizer after each gradient."""

    def step(gradient: Any) -> tuple[dict[str, Any], None]:
        for number, case in enumerate(CASES.values()):
            weights = keras.Variable(START, name=f"w{number}")
            made(case, f"case_{number}").apply_gradients([(gradient, weights)])
        return {}, None

    program = Program(step, GRADIENTS[0])
    state, seen, run = program.initial, [], jax.jit(program.step)
    for gradient in GRADIENTS:
        state, _ = run(state, gradient)
        seen.append({name: state[f"w{number}"] for number, name in enumerate(CASES)})
    return seen


@pytest.mark.parametrize("case", cases("optimizers", is_dense_update, DEPARTURES))
def test_weights_change_as_in_tensorflow(updated: list[dict[str, Any]], case: dict[str, Any]) -> None:
    assert np.array_equal(np.asarray(case["input"]["gradients"], np.float32), GRADIENTS)
    for values, weights in zip(updated, case["expect"]["weights_after_step"], strict=True):
        np.testing.assert_allclose(values[optimizer_of(case)], weights, rtol=2e-5, atol=2e-6)
