"""The optimizers of ``tf.compat.v1`` update on servers as in one process, and as TensorFlow's do."""

import jax
import numpy as np
import pytest
from machine_servers import MachineServers

import muster_tensorflow as tf
from muster._keras import keras
from muster.distribute.engine._flat_arrays import RowRange
from muster.program.trace import Program
from recorded import IN_REPOSITORY, load


def recorded():
    """Name -> what makes an optimizer, and what TensorFlow recorded for dense gradients."""
    found = {}
    for case in load("optimizers", IN_REPOSITORY):
        name, _, dtype = case["name"].partition("/dense/")
        if not dtype or "schedule" in name:
            continue
        given = case["input"]["optimizer"]
        package, _, kind = given["class"].rpartition(".")
        if package == "tf.compat.v1.train":
            make = getattr(tf.compat.v1.train, kind)
            kwargs = {"learning_rate": 0.001, "name": f"case_{len(found)}"} | given["kwargs"]
            found[name] = (lambda make=make, kwargs=kwargs: make(**kwargs)), case
    return found


RECORDED = recorded()
CLASSES = {case["input"]["optimizer"]["class"].rpartition(".")[2] for _, case in RECORDED.values()}
MAKERS = {name: make for name, (make, _) in RECORDED.items()}
CASE = next(case for _, case in RECORDED.values())
START = np.asarray(CASE["input"]["start"], np.float32)
GRADIENTS = np.asarray(CASE["input"]["gradients"], np.float32)


def train(gradient):
    """A step that updates a variable by each optimizer."""
    for number, make in enumerate(MAKERS.values()):
        weights = keras.Variable(START, name=f"w{number}")
        make().apply_gradients([(gradient, weights)])
    return {}, None


@pytest.fixture(scope="module")
def trained():
    """The values of all variables after each gradient: in one process, on one server, and on two."""
    program = Program(train, GRADIENTS[0], seed=1)
    whole, state = jax.jit(program.step), program.initial
    rows = {f"w{number}": [RowRange(0, 0, 2), RowRange(1, 2, 3)] for number in range(len(MAKERS))}
    servers = MachineServers(program, {}, 1, GRADIENTS[0]), MachineServers(program, rows, 2, GRADIENTS[0])
    seen = []
    for gradient in GRADIENTS:
        state, _ = whole(state, gradient)
        for each in servers:
            each.step(gradient)
        seen.append((state, *(each.values() for each in servers)))
    return seen


@pytest.mark.parametrize("name", MAKERS)
def test_an_optimizer_on_servers_updates_as_in_one_process(trained, name):
    path = f"w{[*MAKERS].index(name)}"
    assert not np.array_equal(trained[-1][0][path], START)
    for expected, on_one, on_two in trained:
        np.testing.assert_allclose(on_one[path], expected[path], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(on_two[path], expected[path], rtol=1e-5, atol=1e-6)


def test_what_optimizers_keep_is_as_in_one_process(trained):
    expected, *on_servers = trained[-1]
    for values in on_servers:
        assert values.keys() == expected.keys()
        for path, value in expected.items():
            np.testing.assert_allclose(values[path], value, rtol=1e-4, atol=1e-6, err_msg=path)


@pytest.mark.parametrize("name", MAKERS)
def test_numbers_are_those_that_tensorflow_recorded(trained, name):
    _, case = RECORDED[name]
    assert np.array_equal(np.asarray(case["input"]["gradients"], np.float32), GRADIENTS)
    path = f"w{[*MAKERS].index(name)}"
    for (_, *on_servers), theirs in zip(trained, case["expect"]["weights_after_step"], strict=True):
        for values in on_servers:
            np.testing.assert_allclose(values[path], theirs, rtol=2e-5, atol=2e-6)


def test_every_optimizer_of_tensorflow_1_is_among_them():
    ours = {name for name in vars(tf.compat.v1.train) if name.endswith("Optimizer") and name != "Optimizer"}
    assert ours - {"SyncReplicasOptimizer"} <= CLASSES  # which is refused beside servers
