"""Callbacks that mind no steps are spared them; what they are told and what is shown stays Keras' own."""

import contextlib
import itertools
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fit_cases import BATCH, ROWS, Batches, X, Y, built, generator

from muster._keras import keras
from muster.distribute import MirroredStrategy

STEPS = -(-ROWS // BATCH)

pytestmark = pytest.mark.usefixtures("compiled_once")


class Told(keras.callbacks.Callback):
    """Keeps what it is told of a run, but for its steps."""

    def __init__(self):
        super().__init__()
        self.told, self.pools = [], 0

    def on_train_begin(self, logs=None):
        self.told.append(("begins", dict(self.params)))

    on_test_begin = on_predict_begin = on_train_begin

    def on_epoch_end(self, epoch, logs=None):
        self.told.append((epoch, sorted(logs)))
        self.pools += any(thread.name.startswith("ThreadPoolExecutor") for thread in threading.enumerate())


RUNS = {
    "arrays": lambda model, **options: model.fit(X, Y, epochs=2, shuffle=False, **options),
    "arrays in batches": lambda model, **options: model.fit(X, Y, batch_size=48, shuffle=False, **options),
    "a part to validate": lambda model, **options: model.fit(
        X, Y, validation_split=0.3, batch_size=BATCH, epochs=2, shuffle=False, **options
    ),
    "validation data": lambda model, **options: model.fit(
        X, Y, validation_data=(X, Y), validation_split=0.3, batch_size=BATCH, shuffle=False, **options
    ),
    "steps an epoch": lambda model, **options: model.fit(
        X, Y, batch_size=BATCH, steps_per_epoch=3, epochs=2, shuffle=False, **options
    ),
    "a PyDataset": lambda model, **options: model.fit(Batches(), shuffle=False, **options),
    "a generator": lambda model, **options: model.fit(
        (batch for batch in itertools.islice(generator(), STEPS)), shuffle=False, **options
    ),
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
    assert our_lines == lines
    assert len(lines) == (0 if verbose == 0 else 1 if history is None else len(history.epoch))
    if history is not None:
        assert (our_history.params, our_history.epoch) == (history.params, history.epoch)
        for name, values in history.history.items():
            np.testing.assert_allclose(our_history.history[name], values, rtol=1e-4, err_msg=name)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("run", ["arrays", "a part to validate", "a generator"])
def test_steps_are_not_handed_to_a_thread_for_nobody(run):
    pools = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        callback = Told()
        RUNS[run](model_of(strategy, run), verbose=0, callbacks=[callback])
        pools.append(callback.pools)
    assert pools[0] > 0  # Keras does
    assert pools[1] == 0


class Steps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append((batch, logs["loss"]))


class AnyBatch(Steps):
    on_train_batch_end = keras.callbacks.Callback.on_train_batch_end

    def on_batch_end(self, batch, logs=None):
        self.steps.append((batch, logs["loss"]))


def begins(steps):
    return keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: steps.append(batch))


def ends(steps):
    return keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))


@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize("kind", [Steps, AnyBatch, begins, ends])
def test_callbacks_that_mind_steps_are_told_of_each(kind, verbose):
    told = []
    for strategy in (None, MirroredStrategy(["/cpu:0"])):
        steps = []
        callback = kind(steps) if kind in (begins, ends) else kind()
        RUNS["arrays"](model_of(strategy, "arrays"), verbose=verbose, callbacks=[Told(), callback])
        told.append(np.array(getattr(callback, "steps", steps)))
    assert len(told[0]) == 2 * STEPS
    np.testing.assert_allclose(told[1], told[0], rtol=1e-4)


def test_a_progress_bar_of_the_users_own_is_shown(capsys):
    RUNS["arrays"](
        model_of(MirroredStrategy(["/cpu:0"]), "arrays"),
        verbose=0,
        callbacks=[keras.callbacks.ProgbarLogger()],
    )
    silent = capsys.readouterr().out

    class Loud(keras.callbacks.ProgbarLogger):
        def __init__(self):
            super().__init__()
            self.seen_steps = []

        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            self.seen_steps.append(batch)

    loud = Loud()
    RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"), verbose=1, callbacks=[loud])
    assert "Epoch" not in silent  # verbose=0 is told to it
    assert len(shown(capsys.readouterr().out)) == 2
    assert loud.seen_steps == 2 * list(range(STEPS))


def test_what_keras_limits_is_left_to_keras():
    keras.config.set_max_steps_per_epoch(2)
    try:
        with pytest.warns(UserWarning, match="Limiting steps_per_epoch to 2"):
            history = RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"), verbose=0)
    finally:
        keras.config.set_max_steps_per_epoch(None)
    assert history.params["steps"] == 2


@pytest.mark.parametrize(("secs", "expected"), [(0.0, [0, 7]), (0.02, [0, 3, 6, 7]), (0.06, list(range(8)))])
def test_the_bar_shows_a_step_every_twentieth_of_a_second_and_the_last(monkeypatch, secs, expected):
    shown_steps = []
    clock = SimpleNamespace(monotonic=itertools.count(0.0, secs).__next__ if secs else lambda: 1.0)
    monkeypatch.setattr("muster.distribute._fit_callback_list.time", clock)
    monkeypatch.setattr(
        keras.callbacks.ProgbarLogger,
        "on_train_batch_end",
        lambda self, batch, logs=None: shown_steps.append(batch),
    )
    RUNS["arrays"](model_of(MirroredStrategy(["/cpu:0"]), "arrays"), verbose=1)
    assert sorted(shown_steps) == sorted(2 * expected)  # Keras has several threads show them
