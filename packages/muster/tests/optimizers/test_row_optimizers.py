"""Optimizers change the rows that a step looked up, and their slots, as TensorFlow's do."""

import contextlib
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster import optimizers as legacy
from muster._keras import keras
from muster.distribute import IndexedSlices
from muster.program.passes._sparse_gradients import by_masks
from muster.program.trace._program import Program
from recorded import IN_REPOSITORY, cases, load

PACKAGES = {
    "tf.keras.optimizers": keras.optimizers,
    "tf.keras.optimizers.legacy": legacy,
}


def is_sparse_update(case: dict[str, Any]) -> bool:
    given = case["input"].get("optimizer")
    return "/sparse/" in case["name"] and given["class"].rpartition(".")[0] in PACKAGES


def optimizer_of(case: dict[str, Any]) -> str:
    given = case["input"]["optimizer"]
    return f"{given['class']}({given['kwargs']})"


def maker(case: dict[str, Any], name: str) -> Callable[[], Any]:
    given = case["input"]["optimizer"]
    package, _, kind = given["class"].rpartition(".")
    kwargs = {"learning_rate": 0.001, "name": name} | given["kwargs"]
    return lambda: getattr(PACKAGES[package], kind)(**kwargs)


def by_slices(optimizer: Any, weights: Any, ids: Any, values: Any) -> None:
    optimizer.apply_gradients([(IndexedSlices(values, ids), weights)])


def by_lookups(optimizer: Any, weights: Any, ids: Any, values: Any) -> None:
    tape = muster.GradientTape()
    gradient = tape.gradient(jnp.sum(keras.ops.take(weights, ids, axis=0) * values), [weights])
    optimizer.apply_gradients(zip(gradient, [weights], strict=True))


def by_clipped_lookups(optimizer: Any, weights: Any, ids: Any, values: Any) -> None:
    loss = jnp.sum(weights.value[ids[:2]] * values[:2]) + 2 * jnp.sum(weights.value[ids[2:]] * values[2:] / 2)
    (gradient,) = muster.gradients(loss, [weights])
    norm = jnp.sqrt(jnp.sum(jnp.square(gradient)))
    clipped = jnp.clip(gradient * (1e9 / jnp.maximum(norm, 1e9)), -1e9, 1e9)
    optimizer.apply_gradients([(clipped, weights)])


WAYS = {"slices": by_slices, "lookups": by_lookups, "clipped": by_clipped_lookups, "masked": by_slices}
CASES = [case for case in load("optimizers", IN_REPOSITORY) if is_sparse_update(case)]
GRADIENTS = [
    (np.asarray(each["indices"], np.int32), np.reshape(each["values"], (-1, 2)).astype(np.float32))
    for each in CASES[0]["input"]["gradients"]
]
START = np.asarray(CASES[0]["input"]["start"], np.float32)
# Cases in float64 and in float32 are about the same optimizers.
MAKERS = {optimizer_of(case): maker(case, f"case_{number}") for number, case in enumerate(CASES)}


# To compile the optimizers takes 8 s for each of the ways.
@pytest.fixture(
    scope="module",
    params=[pytest.param(way, marks=() if way == "lookups" else pytest.mark.slow) for way in WAYS],
)
def updated(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The values of a variable for each optimizer after each gradient."""
    way = request.param

    def step(ids: Any, values: Any) -> tuple[dict[str, Any], None]:
        apply = WAYS[way] if len(ids) else by_slices  # without ids there is nothing to differentiate
        for number, make in enumerate(MAKERS.values()):
            apply(make(), keras.Variable(START, name=f"w{number}"), ids, values)
        return {}, None

    program = Program(step, *GRADIENTS[0])
    state, seen = program.initial, []
    for ids, values in GRADIENTS:
        with by_masks() if way == "masked" else contextlib.nullcontext():
            state, _ = jax.jit(program.step)(state, ids, values)
        seen.append({name: state[f"w{number}"] for number, name in enumerate(MAKERS)})
    return seen


@pytest.mark.parametrize("case", cases("optimizers", is_sparse_update))
def test_rows_change_as_in_tensorflow(updated: list[dict[str, Any]], case: dict[str, Any]) -> None:
    given, name = case["input"], optimizer_of(case)
    assert np.array_equal(np.asarray(given["start"], np.float32), START)
    assert [each["indices"] for each in given["gradients"]] == [ids.tolist() for ids, _ in GRADIENTS]
    for values, weights in zip(updated, case["expect"]["weights_after_step"], strict=True):
        np.testing.assert_allclose(values[name], weights, rtol=2e-5, atol=2e-6)


@pytest.mark.samples("RMSprop")
@pytest.mark.parametrize("name", ["RMSprop", "Adagrad", "Adam"])
def test_optimizers_are_saved_with_a_model(tmp_path: pathlib.Path, name: str) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(getattr(legacy, name)(0.1), "mse")
    x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(x, y, verbose=0)
    for expected, found in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)
