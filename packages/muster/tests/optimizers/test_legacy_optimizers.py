"""Optimizers that leave rows which were not looked up: arguments, learning rates, and training."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster import optimizers as legacy
from muster._keras import keras
from muster.distribute import OneDeviceStrategy
from muster.program.trace._program import Program

KINDS = ["SGD", "Adagrad", "Adadelta", "Adam", "Adamax", "Ftrl", "Nadam", "RMSprop"]


def trained(make: Any, gradients: list[Any], start: Any = (1.0, -2.0)) -> list[np.ndarray]:
    """Return the weights after a step on each gradient."""

    def step(gradient: Any) -> tuple[dict[str, Any], None]:
        weights = keras.Variable(np.asarray(start, np.float32), name="w")
        make().apply_gradients([(gradient, weights)])
        return {}, None

    program = Program(step, jnp.asarray(gradients[0], jnp.float32))
    state, seen, run = program.initial, [], jax.jit(program.step)
    for gradient in gradients:
        state, _ = run(state, jnp.asarray(gradient, jnp.float32))
        seen.append(np.asarray(state["w"]))
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimizer_is_made_again_from_its_configuration(kind: str) -> None:
    optimizer = getattr(legacy, kind)(0.25, decay=0.5, clipvalue=0.5)
    config = optimizer.get_config()
    assert config["decay"] == 0.5
    assert type(optimizer).from_config(config).get_config() == config
    gradients = [[0.25, -3.0], [0.5, 0.25]]
    np.testing.assert_array_equal(
        trained(lambda: getattr(legacy, kind).from_config(config), gradients),
        trained(lambda: getattr(legacy, kind)(0.25, decay=0.5, clipvalue=0.5), gradients),
    )


def test_the_rate_decays() -> None:
    seen = trained(lambda: legacy.SGD(0.5, decay=1.0), [[1.0], [1.0], [1.0]], [0.0])
    np.testing.assert_allclose(np.ravel(seen), [-0.5, -0.75, -0.75 - 0.5 / 3])


def test_lr_is_the_learning_rate() -> None:
    optimizer = legacy.SGD(lr=0.25)
    assert float(optimizer.learning_rate) == 0.25
    optimizer.lr = 0.5
    assert float(optimizer.lr) == float(optimizer.learning_rate) == 0.5


def test_the_rate_may_be_a_schedule_that_programs_call() -> None:
    halved = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    optimizer = legacy.Adam(halved)
    assert optimizer.learning_rate is optimizer.lr is halved
    assert float(optimizer.learning_rate(2)) == 0.125
    seen = trained(lambda: legacy.SGD(halved), [[1.0], [1.0], [1.0]], [0.0])
    np.testing.assert_allclose(np.ravel(seen), [-0.5, -0.75, -0.875])
    optimizer.lr = keras.optimizers.schedules.PiecewiseConstantDecay([1], [1.0, 2.0])
    assert float(optimizer.learning_rate(0)) == 1.0
    with pytest.raises(TypeError, match="LearningRateSchedule"):
        optimizer.learning_rate = 0.5


@pytest.mark.parametrize(
    ("kind", "kwargs", "error", "message"),
    [
        ("SGD", {"rate": 0.5}, TypeError, r"SGD got unexpected keyword arguments \['rate'\]"),
        ("SGD", {"momentum": 2.0}, ValueError, "`momentum` must be between"),
        ("RMSprop", {"momentum": -1.0}, ValueError, "`momentum` must be between"),
        ("Adam", {"decay": -1.0}, ValueError, "decay cannot be less than 0. Received: decay=-1.0"),
        ("Adagrad", {"initial_accumulator_value": -1.0}, ValueError, "must be non-negative: -1.0"),
        (
            "Ftrl",
            {"learning_rate_power": 0.5},
            ValueError,
            "`learning_rate_power` must be <= 0",
        ),
        (
            "Ftrl",
            {"l1_regularization_strength": -1.0},
            ValueError,
            "`l1_regularization_.* must be >= 0",
        ),
    ],
)
def test_wrong_arguments_are_refused(kind: str, kwargs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        getattr(legacy, kind)(**kwargs)


def test_nadam_looks_ahead_with_a_momentum_that_grows() -> None:
    gradients = np.array([[0.5, -1.0], [0.25, 2.0], [0.0, 0.5]])
    weights, mean, squares, product, expected = np.array([1.0, -2.0]), 0.0, 0.0, 1.0, []
    for number, gradient in enumerate(gradients, 1):
        now, following = (0.9 * (1 - 0.5 * 0.96 ** (0.004 * step)) for step in (number, number + 1))
        product *= now
        mean, squares = 0.9 * mean + 0.1 * gradient, 0.999 * squares + 0.001 * gradient**2
        ahead = (1 - now) * gradient / (1 - product) + following * mean / (1 - product * following)
        weights = weights - 0.1 * ahead / (np.sqrt(squares / (1 - 0.999**number)) + 1e-7)
        expected.append(weights)
    np.testing.assert_allclose(trained(lambda: legacy.Nadam(0.1), [*gradients]), expected, rtol=1e-5)


@pytest.mark.samples("Adadelta-kwargs0", "Nadam-kwargs2")
@pytest.mark.parametrize(
    ("kind", "kwargs"), [("Adadelta", {}), ("Adamax", {}), ("Nadam", {}), ("RMSprop", {"momentum": 0.5})]
)
def test_rows_that_were_not_looked_up_stay(kind: str, kwargs: dict[str, Any]) -> None:
    def step(ids: Any) -> tuple[dict[str, Any], None]:
        table = keras.Variable(np.ones((6, 2), np.float32), name="table")
        loss = jnp.sum(jnp.square(keras.ops.take(table, ids, axis=0)))
        getattr(legacy, kind)(0.5, **kwargs).minimize(loss, var_list=[table])
        return {}, None

    first, second = np.array([1, 4, 1], np.int32), np.array([0, 0, 2], np.int32)
    program = Program(step, first)
    state, _ = jax.jit(program.step)(program.initial, first)
    between = np.asarray(state["table"])
    state, _ = jax.jit(program.step)(state, second)
    assert np.flatnonzero((between != 1).any(axis=1)).tolist() == [1, 4]
    assert np.flatnonzero((np.asarray(state["table"]) != between).any(axis=1)).tolist() == [0, 2]


def test_minimize_calls_functions() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        weights = keras.Variable(1.0, name="w")
        legacy.SGD(0.5).minimize(lambda: x * weights, lambda: [weights])
        with pytest.raises(NotImplementedError, match="grad_loss"):
            legacy.SGD(0.5).minimize(x * weights, [weights], grad_loss=x)
        return {}, None

    program = Program(step, jnp.float32(3.0))
    state, _ = jax.jit(program.step)(program.initial, jnp.float32(3.0))
    assert float(state["w"]) == -0.5


def test_fit_trains_only_the_rows_of_a_batch() -> None:
    ids, labels = np.array([[1, 4], [4, 7]], np.int32), np.ones(2, np.float32)
    with OneDeviceStrategy("/cpu:0").scope():
        embedding = keras.layers.Embedding(20, 2)
        model = keras.Sequential([embedding, keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(legacy.SGD(0.1, momentum=0.9), "mse")
        model.build(ids.shape)
    before = np.asarray(embedding.embeddings.value)
    model.fit(ids, labels, batch_size=2, verbose=0)
    changed = (np.asarray(embedding.embeddings.value) != before).any(axis=1)
    assert np.flatnonzero(changed).tolist() == [1, 4, 7]
    momentum = next(v for v in model.optimizer.variables if v.shape == (20, 2))
    assert np.flatnonzero(np.asarray(momentum.value).any(axis=1)).tolist() == [1, 4, 7]


# What TensorFlow 2.15 has after a step on the first variable, one on the second, and one on both.
AFTER_SHARING = {
    "SGD": ([0.75, 1.0], [0.75, 1.0]),
    "Adagrad": ([0.42639017, -1.1501794], [0.42639017, -1.1501794]),
    "Adadelta": ([0.9985768, -1.9985768], [0.9985768, -1.9985768]),
    "Adam": ([0.0707776, -1.0707682], [0.19870883, -1.198701]),
    "Adamax": ([0.14944679, -1.1494465], [0.38628888, -1.3862886]),
    "Ftrl": ([-0.3580745, -0.9405226], [-0.3580745, -0.9405226]),
    "Nadam": ([0.04678205, -1.0467817], [0.05251953, -1.052519]),
    "RMSprop": ([-1.7282143, 0.72821677], [-1.7282143, 0.72821677]),
}


@pytest.mark.samples("Nadam-True", "SGD-False", "Ftrl-True", "RMSprop-True")
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_variables_may_come_after_the_first_step(kind: str, traced: bool) -> None:
    optimizer = getattr(legacy, kind)(0.5)
    first, second = (keras.Variable([1.0, -2.0], name=name) for name in "ab")
    gradient = jnp.asarray([0.25, -3.0])
    steps = [
        lambda: optimizer.apply_gradients([(gradient, first)]),
        lambda: optimizer.apply_gradients([(gradient, second)]),
        lambda: optimizer.apply_gradients([(gradient, second), (gradient, first)]),
    ]
    for step in steps:
        (muster.function(step) if traced else step)()
    for variable, expected in zip((first, second), AFTER_SHARING[kind], strict=True):
        np.testing.assert_allclose(variable.numpy(), expected, atol=1e-5)  # 1 - 0.999 in float32
    assert int(optimizer.iterations) == 3
