"""Callbacks that mind no steps are spared them; what they are told and what is shown stays Keras' own."""

import contextlib
import itertools
import re
import sys
import threading
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from fit_cases import BATCH, ROWS, Batches, X, Y, built, generator

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.distribute.fit._fit_step import KerasFunction

STEPS = -(-ROWS // BATCH)

pytestmark = pytest.mark.usefixtures("compiled_once")


class Told(keras.callbacks.Callback):
    """Keeps what it is told of a run, but for its steps."""

    def __init__(self):
        super().__init__()
        self.told, self.threads = [], set()

    def on_train_begin(self, logs=None):
        self.told.append(("begins", dict(self.params)))

    on_test_begin = on_predict_begin = on_train_begin

    def on_epoch_end(self, epoch, logs=None):
        self.told.append((epoch, sorted(logs)))
        self.threads |= set(threading.enumerate())


def batches():
    return (batch for batch in itertools.islice(generator(), STEPS))


RUNS = {
    "arrays": lambda model, **options: model.fit(X, Y, epochs=2, shuffle=False, **options),
    "arrays in batches": lambda model, **options: model.fit(X, Y, batch_size=48, shuffle=False, **options),
    "a part to validate": lambda model, **options: model.fit(
        X[:255], Y[:255], validation_split=0.12, batch_size=BATCH, epochs=2, shuffle=False, **options
    ),
    "more than all to validate": lambda model, **options: model.fit(
        X, Y, validation_split=-0.5, batch_size=BATCH, shuffle=False, **options
    ),
    "validation data": lambda model, **options: model.fit(
        X, Y, validation_data=(X, Y), validation_split=0.3, batch_size=BATCH, shuffle=False, **options
    ),
    "steps an epoch": lambda model, **options: model.fit(
        X, Y, batch_size=BATCH, steps_per_epoch=3, epochs=2, shuffle=False, **options
    ),
    "no steps an epoch": lambda model, **options: model.fit(
        X, Y, batch_size=BATCH, steps_per_epoch=0, shuffle=False, **options
    ),
    "a PyDataset": lambda model, **options: model.fit(Batches(), shuffle=False, **options),
    "a generator": lambda model, **options: model.fit(batches(), shuffle=False, **options),
    "a generator and validation": lambda model, **options: model.fit(
        batches(), validation_data=(X, Y), shuffle=False, **options
    ),
    "evaluate a generator": lambda model, **options: model.evaluate(batches(), **options),
    "predict a generator": lambda model, **options: model.predict(((x,) for x, _ in batches()), **options),
    "evaluate": lambda model, **options: model.evaluate(X, Y, batch_size=BATCH, **options),
    "predict": lambda model, **options: model.predict(X, batch_size=BATCH, **options),
    "a dict of arrays": lambda model, **options: model.evaluate(
        {"x": X}, Y, batch_size=BATCH, steps=2, **options
    ),
}


def model_of(strategy, run):
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        if run != "a dict of arrays":
            return built("functional")
        x = keras.Input((6,), name="x")
        model = keras.Model({"x": x}, keras.layers.Dense(3, kernel_initializer="ones")(x))
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model


def shown(output):
    """How many steps each line counts in the end, and the values that it then shows, without times."""
    plain = re.sub(r"\x1b\[\d+m", "", output)
    end = re.compile(r"\b(\d+)/\1\b[^\b]*?step((?: - \w+: [\d.e+-]+)*)")
    ends = [end.findall(line) for line in plain.split("\n")]
    return [end[-1] for end in ends if end]


@pytest.mark.samples(
    "arrays-0",
    "a part to validate-2",
    "steps an epoch-2",
    "a PyDataset-1",
    "a generator and validation-0",
    "evaluate a generator-1",
    "predict-1",
    "a dict of arrays-2",
)
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("verbose", [0, 1, 2])
@pytest.mark.parametrize("run", RUNS)
def test_what_is_told_and_shown_is_what_keras_tells_and_shows(run, verbose, capsys):
    outcomes = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        model, callback = model_of(strategy, run), Told()
        result = RUNS[run](model, verbose=verbose, callbacks=[callback])
        history = result if isinstance(result, keras.callbacks.History) else None
        outcomes.append((callback.told, shown(capsys.readouterr().out), history))
    (told, lines, history), (our_told, our_lines, our_history) = outcomes
    assert our_told == told
    assert [values for _, values in our_lines] == [values for _, values in lines]
    if "a generator" in run:  # Keras' threads may show its steps in another order, and count to another end
        lines = [(str(STEPS), values) for _, values in lines]
    assert our_lines == lines
    assert len(lines) == (0 if verbose == 0 else 1 if history is None else len(history.epoch))
    if history is not None:
        assert (our_history.params, our_history.epoch) == (history.params, history.epoch)
        for name, values in history.history.items():
            np.testing.assert_allclose(our_history.history[name], values, rtol=1e-4, err_msg=name)


@pytest.mark.samples("a part to validate-1", "a generator-0")
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize("run", ["arrays", "a part to validate", "a PyDataset", "a generator"])
def test_steps_are_not_handed_to_a_thread(run, verbose):
    threads = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        model, callback, before = model_of(strategy, run), Told(), set(threading.enumerate())
        RUNS[run](model, verbose=verbose, callbacks=[callback])
        threads.append([thread.name for thread in callback.threads - before])
    assert any(name.startswith("ThreadPoolExecutor") for name in threads[0])  # as Keras does
    assert threads[1] == []


def test_a_dataset_of_ours_needs_no_thread_either():
    callback, before = Told(), set(threading.enumerate())
    data = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
    model_of(MirroredStrategy(["/cpu:0"]), "").fit(data, verbose=0, callbacks=[callback])
    assert not [each for each in callback.threads - before if each.name.startswith("ThreadPoolExecutor")]
    assert callback.told[0][1]["steps"] == STEPS


class Steps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.steps = []

    def count(self, batch, logs=None):
        self.steps.append(batch)


class OnTrain(Steps):
    on_train_batch_end = Steps.count


class OnTrainBegin(Steps):
    on_train_batch_begin = Steps.count


class OnAny(Steps):
    on_batch_end = Steps.count


class OnAnyBegin(Steps):
    on_batch_begin = Steps.count


class OnTest(Steps):
    on_test_batch_end = Steps.count


class OnTestBegin(Steps):
    on_test_batch_begin = Steps.count


class OnPredict(Steps):
    on_predict_batch_end = Steps.count


class OnPredictBegin(Steps):
    on_predict_batch_begin = Steps.count


class MakesUpItsMind(Steps):
    def on_train_begin(self, logs=None):
        self.on_train_batch_end = self.on_train_batch_begin = self.count

    def on_test_begin(self, logs=None):
        self.on_test_batch_end = self.on_test_batch_begin = self.count

    def on_predict_begin(self, logs=None):
        self.on_predict_batch_end = self.on_predict_batch_begin = self.count


class MakesUpItsMindLater(Steps):
    def on_epoch_begin(self, epoch, logs=None):
        self.on_train_batch_end = self.count


class OfLambdas(Steps):
    def __new__(cls):
        steps = []
        callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
        callback.steps = steps
        return callback


KINDS = [
    OnTrain,
    OnTrainBegin,
    OnAny,
    OnAnyBegin,
    OnTest,
    OnTestBegin,
    OnPredict,
    OnPredictBegin,
    MakesUpItsMind,
    MakesUpItsMindLater,
    OfLambdas,
]


@pytest.mark.samples("OnTrain-1", "MakesUpItsMindLater-0")
@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_callbacks_that_mind_steps_are_told_of_each(kind, verbose):
    told = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        steps = []
        for run in "validation data", "evaluate", "predict":
            callback = kind()
            RUNS[run](model_of(strategy, run), verbose=verbose, callbacks=[Told(), callback])
            steps.append(sorted(callback.steps))  # Keras tells some of them from threads
        told.append(steps)
    assert STEPS <= sum(map(len, told[0]))
    assert told[0] == told[1]


def test_a_progress_bar_of_the_users_own_is_told_of_each_step(capsys):
    class Loud(keras.callbacks.ProgbarLogger):
        def __init__(self):
            super().__init__()
            self.seen_steps = []

        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            self.seen_steps.append(batch)

    loud = Loud()
    RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"), verbose=1, callbacks=[loud])
    assert len(shown(capsys.readouterr().out)) == 2
    assert loud.seen_steps == 2 * list(range(STEPS))


def test_a_bar_is_shown_unless_told_otherwise(capsys):
    RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"))
    assert [steps for steps, _ in shown(capsys.readouterr().out)] == [str(STEPS)] * 2


def test_callbacks_are_told_when_the_model_is_built_and_the_data_taken():
    class Looks(keras.callbacks.Callback):
        weights = None

        def set_model(self, model):
            super().set_model(model)
            self.weights = len(model.weights)

    with MirroredStrategy(["/cpu:0"]).scope():
        model = keras.Sequential([keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callback = Looks()
    model.fit(X, Y, verbose=0, callbacks=[callback])
    assert callback.weights == 2
    history, callback = model.history, Looks()
    with pytest.raises(ValueError, match="[Dd]ata cardinality"):
        model.fit(X, Y[:5], verbose=0, callbacks=[callback])
    assert callback.weights is None
    model.evaluate(X, Y, verbose=0)
    model.predict(X, verbose=0)
    assert model.history is history


def test_a_callback_may_compile_the_model():
    class Compiles(keras.callbacks.Callback):
        def set_model(self, model):
            super().set_model(model)
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            model.optimizer.build(model.trainable_variables)

    model = model_of(MirroredStrategy(["/cpu:0"]), "arrays")
    RUNS["arrays"](model, verbose=0, callbacks=[Compiles()])
    assert isinstance(model.optimizer, keras.optimizers.Adam)
    assert int(model.optimizer.iterations.value) == 2 * STEPS


@pytest.mark.parametrize(("limit", "name"), [("max_steps_per_epoch", "steps"), ("max_epochs", "epochs")])
def test_what_keras_limits_is_left_to_keras(limit, name):
    set_limit = getattr(keras.config, f"set_{limit}")
    set_limit(1)
    try:
        with pytest.warns(UserWarning, match="Limiting"):
            history = RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"), verbose=0)
    finally:
        set_limit(None)
    assert history.params[name] == 1


def test_logs_that_are_no_numbers_are_shown_as_keras_shows_them(monkeypatch):
    shown_logs = {}
    monkeypatch.setattr(
        keras.callbacks.ProgbarLogger,
        "on_train_batch_end",
        lambda self, batch, logs=None: shown_logs.__setitem__(batch, logs),
    )

    class Odd(keras.Model):
        def train_step(self, state, data):
            logs, state = super().train_step(state, data)
            return logs | {"groups": {"inner": logs["loss"]}, "many": jnp.ones(2), "one": jnp.ones(1)}, state

    outcomes = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        with contextlib.nullcontext() if strategy is None else strategy.scope():
            keras.utils.set_random_seed(7)
            x = keras.Input((6,))
            model = Odd(x, keras.layers.Dense(3)(x))
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, batch_size=BATCH, shuffle=False)
        outcomes.append(shown_logs.pop(STEPS - 1))
    assert list(outcomes[0]) == list(outcomes[1])
    for name, value in outcomes[0].items():
        assert type(outcomes[1][name]) is type(value)
        np.testing.assert_allclose(outcomes[1][name], value, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize(("secs", "expected"), [(0.0, [0, 7]), (0.02, [0, 3, 6, 7]), (0.06, list(range(8)))])
def test_the_bar_shows_a_step_every_twentieth_of_a_second_and_the_last(monkeypatch, secs, expected):
    shown_steps = []
    clock = SimpleNamespace(monotonic=itertools.count(0.0, secs).__next__ if secs else lambda: 1.0)
    monkeypatch.setattr("muster.distribute.fit._fit_callback_list.time", clock)
    monkeypatch.setattr(
        keras.callbacks.ProgbarLogger,
        "on_train_batch_end",
        lambda self, batch, logs=None: shown_steps.append(batch),
    )
    RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"), verbose=1)
    assert shown_steps == 2 * expected


@pytest.mark.parametrize(("kind", "calls"), [(Told, 1), (OnTrain, STEPS)])
def test_keras_takes_an_epochs_steps_in_one_call_unless_a_callback_minds_them(kind, calls, monkeypatch):
    called, call = [], KerasFunction.__call__

    def counted(self, state, iterator):
        called.append(iterator)
        return call(self, state, iterator)

    monkeypatch.setattr(KerasFunction, "__call__", counted)
    model = model_of(MirroredStrategy(["/cpu:0"]), "validation data")
    RUNS["validation data"](model, verbose=0, callbacks=[kind()])
    assert len(called) == 2 * calls  # of training and validation
    assert int(model.optimizer.iterations.value) == STEPS


def test_who_looks_at_the_model_between_steps_sees_the_last_state():
    model = model_of(MirroredStrategy(["/cpu:0"]), "a generator")
    seen = []

    def data():
        yield from batches()
        model.jax_state_sync()
        seen.append(model.get_weights())

    with pytest.warns(UserWarning, match="ran out of data"):
        model.fit(data(), verbose=0, shuffle=False)
    assert int(model.optimizer.iterations.value) == STEPS
    for ours, last in zip(*seen, model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, last)


def test_training_stops_after_the_step_at_which_it_is_told_to():
    taken = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        model = model_of(strategy, "a generator")

        def data(model=model):
            for number, batch in enumerate(batches()):
                model.stop_training = number == 2
                yield batch

        history = model.fit(data(), verbose=0, epochs=3, shuffle=False)
        taken.append((int(model.optimizer.iterations.value), history.history["loss"]))
    assert taken[0][0] == 3
    assert taken[1] == (3, pytest.approx(taken[0][1], rel=1e-4))


def test_few_calls_of_python_lie_between_two_steps():
    """Each takes a microsecond where a step has used the processor's caches. There were 76, and are 52."""
    with MirroredStrategy(["/cpu:0"]).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")

    def calls_of(steps):
        x = np.zeros((2 * steps, 2), np.float32)
        count = 0

        def note(frame, event, value):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            model.fit(x, x[:, :1], batch_size=2, shuffle=False, verbose=0)
        finally:
            sys.setprofile(None)
        return count

    calls_of(2)  # compiles
    assert (calls_of(120) - calls_of(20)) / 100 < 60
