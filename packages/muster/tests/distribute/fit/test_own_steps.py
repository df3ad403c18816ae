"""Models with steps of their own, `train_step(self, data)`, in `fit`, `evaluate` and `predict`."""

import numpy as np
import pytest
from fit_cases import BATCH, X
from own_step_cases import (
    EPOCHS,
    KINDS,
    ROWS,
    Classifier,
    all_values,
    check_outcome,
    compiled,
    outcome,
    trained,
)

from muster import function
from muster._keras import keras
from muster.distribute import MirroredStrategy, OneDeviceStrategy, get_strategy

pytestmark = pytest.mark.usefixtures("compiled_once")

STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:1"),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "mirrored 3": lambda: MirroredStrategy([f"/cpu:{i}" for i in range(3)]),
}
_EXPECTED = {}


def expected(kind):
    """What comes of training without a strategy."""
    if kind not in _EXPECTED:
        _EXPECTED[kind] = outcome(get_strategy(), kind)
    return _EXPECTED[kind]


@pytest.mark.samples("GAN-mirrored 2")
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_strategy_trains_as_no_strategy_does(kind, name):
    check_outcome(outcome(STRATEGIES[name](), kind), expected(kind))


@pytest.mark.slow
def test_what_is_done_by_hand_is_what_keras_does():
    keras.utils.set_random_seed(7)
    model = Classifier()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
    check_outcome(trained(model, "classifier"), expected("classifier"))


@pytest.mark.slow
def test_a_gan_trains_as_in_a_loop_of_its_own():
    model = compiled("GAN")
    step = function(model.train_step)
    for _ in range(EPOCHS):
        for start in range(0, ROWS, BATCH):
            step(X[start : min(start + BATCH, ROWS)])
    found = expected("GAN")
    for one, other in zip(all_values(model)[: len(model.weights)], found["weights"], strict=False):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_several_steps_in_one_call(kind):
    found = outcome(get_strategy(), kind, steps_per_execution=3)
    np.testing.assert_allclose(found["predicted"], expected(kind)["predicted"], rtol=2e-4, atol=5e-5)


def test_lists_of_arrays_are_tuples_in_a_step():
    kinds = []

    class Pairs(keras.Model):
        def train_step(self, data):
            kinds.extend(type(each) for each in (data, *data))
            return {"loss": keras.ops.sum(data[0][0]) + keras.ops.sum(data[0][1])}

    model = Pairs()
    model.compile("sgd")
    history = model.fit([np.ones((4, 3)), np.ones((4, 2))], verbose=0)
    assert set(kinds) == {tuple}
    assert history.history["loss"] == [20]
