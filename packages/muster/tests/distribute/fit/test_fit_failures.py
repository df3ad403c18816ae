"""What a model knows after `fit`, `evaluate` or `predict` has failed, or was interrupted."""

import os
import signal

import jax
import numpy as np
import pytest
from fit_cases import BATCH, ROWS, Batches, X, Y, build, same, values

from muster._keras import keras
from muster.distribute import MirroredStrategy
from muster.lifecycle import INTERRUPTS

STEPS = -(-ROWS // BATCH)

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module", params=[1, 2])
def strategy(request):
    return MirroredStrategy([f"/cpu:{index}" for index in range(request.param)])


def trained(strategy, steps):
    """The weights after so many steps."""
    model = build(strategy)
    for step in range(steps):
        rows = slice(step % STEPS * BATCH, (step % STEPS + 1) * BATCH)
        model.fit(X[rows], Y[rows], batch_size=BATCH, verbose=0)
    return values(model)


@pytest.mark.samples("2-1")
@pytest.mark.parametrize("several", [1, 3])
def test_a_model_keeps_what_it_learned_before_a_batch_failed(strategy, several):
    def batches(count):
        yield from ((X[i : i + 8], Y[i : i + 8]) for i in range(0, 8 * count, 8))
        raise OSError("the disk is gone")

    model, other = (build(strategy, steps_per_execution=several) for _ in range(2))
    for count, taken in (0, 0), (5, 5), (0, 5):  # before the first step, within a call, of a trained model
        with pytest.raises(OSError, match="the disk is gone"):
            model.fit(batches(count), steps_per_epoch=20, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations.value) == taken
    other.fit(X[:40], Y[:40], batch_size=8, shuffle=False, verbose=0)
    same(values(model), values(other))
    with pytest.raises(ValueError, match="incompatible with the layer|expected"):
        model.fit(X[:8, :-1], Y[:8], verbose=0)
    same(values(model), values(other))
    model.fit(X[:8], Y[:8], verbose=0)


class Failing(Batches):
    """Ends with an error after some batches."""

    def __init__(self, good):
        super().__init__()
        self.good = good

    def __getitem__(self, index):
        if index >= self.good:
            raise OSError("the disk is gone")
        return super().__getitem__(index)


@pytest.mark.samples("2-2-3")
@pytest.mark.parametrize("good", [1, 3])
@pytest.mark.parametrize("several", [1, 2])
def test_validation_that_fails_loses_no_training(strategy, several, good):
    model = build(strategy, steps_per_execution=several)
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0, validation_data=Failing(good))
    same(values(model), trained(strategy, STEPS))
    model.fit(X, Y, batch_size=BATCH, verbose=0)


@pytest.mark.samples("2-2")
@pytest.mark.parametrize("several", [1, 2])
def test_training_goes_on_after_an_evaluation_that_failed(strategy, several):
    class Evaluates(keras.callbacks.Callback):
        failures = 0

        def on_epoch_end(self, epoch, logs=None):
            with pytest.raises(OSError, match="the disk is gone"):
                self.model.evaluate(Failing(3), verbose=0)
            self.failures += 1

    model, callback = build(strategy, steps_per_execution=several), Evaluates()
    model.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0, callbacks=[callback])
    assert callback.failures == 2
    same(values(model), trained(strategy, 2 * STEPS))


@pytest.mark.samples("1-evaluate")
@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_weights_set_after_a_failure_stay(strategy, method):
    model = build(strategy)
    with pytest.raises(OSError, match="the disk is gone"):
        getattr(model, method)(Failing(3), verbose=0)
    model.set_weights([np.full(weight.shape, 7.0) for weight in model.weights])
    found = []

    class Looks(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            found.extend(values(self.model))

    model.fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[Looks()])
    assert {float(each) for value in found for each in value.flat} == {7.0}


@pytest.mark.samples("2-predict", "1-test_on_batch", "2-evaluate", "1-predict_on_batch")
@pytest.mark.parametrize("method", ["predict_on_batch", "test_on_batch", "evaluate", "predict"])
def test_what_a_failed_call_has_no_part_in_stays(strategy, method):
    model = build(strategy)
    model.train_on_batch(X[:BATCH], Y[:BATCH])
    before = values(model)
    model.optimizer.learning_rate = 0.5
    model.optimizer.iterations.assign(7)
    x = X[:8, :-1]  # of another width
    given = (x,) if "predict" in method else (x, Y[:8])
    with pytest.raises(ValueError, match="incompatible with the layer|expected"):
        getattr(model, method)(*given)
    assert (float(model.optimizer.learning_rate), int(model.optimizer.iterations.value)) == (0.5, 7)
    same(values(model), before)


@pytest.mark.samples("2")
def test_a_rate_that_a_callback_sets_stays_when_its_evaluation_fails(strategy):
    class Slows(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 0.25
            with pytest.raises(OSError, match="the disk is gone"):
                self.model.evaluate(Failing(0), verbose=0)

    model = build(strategy)
    model.fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[Slows()])
    assert float(model.optimizer.learning_rate) == 0.25


def test_averaged_weights_are_those_of_a_failed_fit_too(strategy):
    with strategy.scope():
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
        model.compile(
            keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(Failing(5), shuffle=False, verbose=0)
    averages = {v.name: v for v in model.optimizer.variables if "average" in v.name}
    assert int(model.optimizer.iterations.value) == 5
    assert len(averages) == 2
    same(values(model), [np.asarray(v.value) for v in averages.values()])


def test_a_model_whose_own_fit_goes_on_after_an_error(strategy):
    class Stubborn(keras.Sequential):
        def fit(self, *args, **kwargs):
            try:
                return super().fit(*args, **kwargs)
            except OSError:
                return None

    with strategy.scope():
        keras.utils.set_random_seed(7)
        model = Stubborn([keras.Input((6,)), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, steps_per_execution=3)
    assert model.fit(Failing(5), shuffle=False, verbose=0) is None
    assert int(model.optimizer.iterations.value) == 5
    assert all(np.isfinite(value).all() for value in values(model))
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    assert int(model.optimizer.iterations.value) == 5 + STEPS


class FailsAt(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def on_test_batch_end(self, batch, logs=None):
        if batch == self.batch:
            raise OSError("the disk is full")

    on_train_batch_end = on_predict_batch_end = on_test_batch_end


@pytest.mark.samples("2")
def test_an_error_of_a_callback_is_seen_and_costs_nothing(strategy):
    model = build(strategy)
    with pytest.raises(OSError, match="the disk is full"):
        model.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[FailsAt(4)])
    before = values(model)
    same(before, trained(strategy, 5))
    for method, data in ("evaluate", (X, Y)), ("predict", (X,)):
        with pytest.raises(OSError, match="the disk is full"):
            getattr(model, method)(*data, batch_size=BATCH, verbose=0, callbacks=[FailsAt(1)])
        same(values(model), before)


def test_predictions_that_cannot_be_put_together_cost_nothing(strategy):
    with strategy.scope():
        inputs = keras.Input((None, 6))
        model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
        model.compile(steps_per_execution=2)
    before = values(model)
    with pytest.raises(TypeError, match="[Cc]oncatenate"):
        model.predict(((np.ones((4, length, 6), np.float32),) for length in (5, 7)), verbose=0)
    same(values(model), before)


def test_the_error_of_a_step_that_has_used_up_its_state_is_seen(strategy):
    model = build(strategy)
    model.make_train_function()
    step = model.train_function._step

    def breaks_off(state, reads, batch):
        step(state, reads, batch)
        raise OSError("the device is gone")

    model.train_function._step = breaks_off
    with pytest.raises(OSError, match="the device is gone"):
        model.fit(X, Y, batch_size=BATCH, verbose=0)
    with pytest.raises(RuntimeError, match="deleted"):
        values(model)


class Interrupting(keras.layers.Layer):
    """Has Ctrl-C pressed while a step is computed."""

    at = None

    def __init__(self):
        super().__init__()
        self.steps = 0

    def call(self, x):
        jax.debug.callback(self.count)
        return x

    def count(self):
        self.steps += 1
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def _each_press_counts(monkeypatch):
    """As if there were seconds between them."""
    monkeypatch.setattr("muster.lifecycle._interrupts.SAME_SECS", 0.0)


@pytest.mark.samples("2-2", "1-6", "1-1")
@pytest.mark.usefixtures("_each_press_counts")
@pytest.mark.parametrize("at", [1, 2, 6])
def test_a_model_keeps_what_it_learned_when_ctrl_c_comes_in_a_step(strategy, at):
    def model_with(layer):
        keras.utils.set_random_seed(7)
        with strategy.scope():
            model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(3)])
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    layer = Interrupting()
    model, other = model_with(layer), model_with(Interrupting())
    layer.at = at
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, batch_size=BATCH, epochs=1000, shuffle=False, verbose=0)
    taken = int(model.optimizer.iterations.value)
    assert 0 < taken < 1000
    for step in range(taken):
        rows = slice(step % STEPS * BATCH, (step % STEPS + 1) * BATCH)
        other.fit(X[rows], Y[rows], batch_size=BATCH, verbose=0)
    same(values(model), values(other))
    model.fit(X, Y, batch_size=BATCH, verbose=0)


@pytest.mark.usefixtures("_each_press_counts")
def test_a_second_ctrl_c_does_not_wait_for_the_step(caplog):
    done = []

    def press(name):
        signal.raise_signal(signal.SIGINT)
        done.append(name)

    def step(presses):
        with INTERRUPTS:
            for name in presses:
                press(name)

    with INTERRUPTS.watched():
        with pytest.raises(KeyboardInterrupt):
            step(["a first one waits", "a second one"])
        with pytest.raises(KeyboardInterrupt):
            press("one between steps")
        with pytest.raises(KeyboardInterrupt):
            step(["the next first one waits"])
        step([])  # nothing is left of it
    assert done == ["a first one waits", "the next first one waits"]
    assert "once more stops at once" in caplog.text
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_handlers_of_the_program_stay(when):
    def handler(number, frame):
        """A program's own."""

    before = signal.getsignal(signal.SIGINT)
    try:
        if when == "before":
            signal.signal(signal.SIGINT, handler)
        with INTERRUPTS.watched():
            if when == "meanwhile":
                signal.signal(signal.SIGINT, handler)
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("method", ["predict", "evaluate", "fit"])
def test_a_model_without_a_strategy_has_its_weights_after_an_error(method):
    """Keras' trainer takes them, and loses them when its first step fails; what steps have learned stays."""
    user, item = keras.Input((2,), name="user"), keras.Input((3,), name="item")
    model = keras.Model([user, item], keras.layers.Dense(1)(keras.layers.concatenate([user, item])))
    model.compile("sgd", "mse")
    good = {"user": np.ones((4, 2)), "item": np.ones((4, 3))}
    wrong = {"user": np.ones((4, 2)), "item": np.ones((4, 5))}
    targets = () if method == "predict" else (np.ones((4, 1)),)
    getattr(model, method)(good, *targets, verbose=0)
    before = model.get_weights()
    with pytest.raises(ValueError, match="incompatible with the layer"):
        getattr(model, method)(wrong, *targets, verbose=0)
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    getattr(model, method)(good, *targets, verbose=0)
    if method != "fit":
        return

    class Stops(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        model.fit(good, *targets, verbose=0, callbacks=[Stops()])
    assert int(model.optimizer.iterations) == 3
    assert (model.get_weights()[0] != before[0]).any()
