"""Which steps are TensorFlow's, and which Keras' for JAX, by what they take."""

import functools

import pytest

from muster import function
from muster._keras import keras
from muster.distribute.fit._stateful_step import may_have_own_steps, takes_data


def loosely(step):
    """Decorate a step without saying what it takes."""

    def call(*args, **kwargs):
        return step(*args, **kwargs)

    return call


def closely(step):
    return functools.wraps(step)(loosely(step))


class Keras(keras.Model):
    def call(self, x):
        return x


class WithState(Keras):
    def train_step(self, state, data):
        return super().train_step(state, data)


class WithData(Keras):
    def train_step(self, data):
        return super().train_step(data)


class Named(Keras):
    def train_step(self, batch, *, training=True):
        return {}


class WithOptions(Keras):
    def train_step(self, data, weight=1.0):
        return {}


class StateWithOptions(Keras):
    def train_step(self, state, data=None):
        return {}, state


class Compiled(Keras):
    @function
    def train_step(self, data):
        return {}


class CompiledWithOptions(Keras):
    @function(jit_compile=True)
    def train_step(self, data):
        return {}


class Decorated(Keras):
    @closely
    def train_step(self, data):
        return {}


class DecoratedWithState(Keras):
    @closely
    def train_step(self, state, data):
        return {}, state


class PassesOn(WithData):
    def train_step(self, *args, **kwargs):
        return super().train_step(*args, **kwargs)


class PassesStateOn(WithState):
    def train_step(self, *args, **kwargs):
        return super().train_step(*args, **kwargs)


class PassesToKeras(Keras):
    def train_step(self, *args):
        return super().train_step(*args)


class Derived(WithData):
    pass


class Hidden(Keras):
    train_step = functools.partialmethod(lambda self, name, data: {}, "a name")


OWN = [WithData, Named, WithOptions, Compiled, CompiledWithOptions, Decorated, PassesOn, Derived, Hidden]
KERAS = [Keras, WithState, StateWithOptions, DecoratedWithState, PassesStateOn, PassesToKeras]


@pytest.mark.parametrize("kind", OWN)
def test_tensorflows_way(kind):
    model = kind()
    assert takes_data(model, "fit")
    assert not takes_data(model, "evaluate")
    assert may_have_own_steps(model)


@pytest.mark.parametrize("kind", KERAS)
def test_keras_way(kind):
    assert not takes_data(kind(), "fit")
    assert not may_have_own_steps(kind())


def test_a_step_of_one_model():
    model = Keras()
    model.train_step = lambda data: {}
    assert takes_data(model, "fit")


@pytest.mark.parametrize("step", [lambda self: {}, lambda self, a, b, c: {}])
def test_what_takes_neither_is_refused(step):
    model = type("Other", (Keras,), {"test_step": step})()
    with pytest.raises(
        TypeError, match=r"Other.test_step takes \(.*\). Define it as `test_step\(self, data\)`"
    ):
        takes_data(model, "evaluate")
