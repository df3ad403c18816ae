"""`fit`, `evaluate` and `predict` under ParameterServerStrategy; servers and workers are threads here."""

import contextlib
import gc
import os
import signal
import weakref

import numpy as np
import pytest
from coordinated import strategy_of
from fit_cases import WEIGHTS, Batches, Losses, X, Y, built, generator, same, values
from own_step_cases import KINDS, all_values, check_outcome, compiled, outcome

from muster._errors import DatasetError
from muster._keras import keras
from muster.data import Dataset, Options
from muster.distribute import DatasetCreator, get_strategy
from muster.distribute.coordinator import ClusterCoordinator
from muster.distribute.coordinator._remote_value import RemoteValue

# Keras' own:
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.usefixtures("compiled_once"),
]

layers = keras.layers
ROWS = 100  # the last batch is a short one
DATA = {"x": X[:ROWS], "y": Y[:ROWS], "batch_size": 16}
STEPS = 7


@pytest.fixture(scope="module")
def strategy(compiled_once):
    with strategy_of(workers=1, servers=2, shards=2) as strategy:
        yield strategy


def images():
    """A small convolution, with statistics of batches."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            layers.Input((6,)),
            layers.Reshape((3, 2, 1)),
            layers.Conv2D(4, 2, padding="same"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(3),
        ]
    )
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        steps_per_execution=3,
    )
    return model


def plain(**compile_args):
    """The smallest model that learns."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, **compile_args)
    return model


def dropping(**compile_args):
    """Another one, with dropout."""
    model = plain()
    dropped = keras.Sequential([keras.Input((6,)), layers.Dropout(0.3), *model.layers])
    dropped.compile(model.optimizer, model.loss, **compile_args)
    return dropped


def within(strategy, build, **arguments):
    with strategy.scope():
        return build(**arguments)


def close(found, expected):
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-4, atol=1e-5, err_msg=name)


CASES = {
    "Adam": (
        lambda: built("sequential", "adam"),
        {"class_weight": {0: 0.5, 1: 2.0}, "validation_split": 0.3},
    ),
    "images": (images, {"sample_weight": WEIGHTS[:ROWS], "validation_data": (X[:40], Y[:40], WEIGHTS[:40])}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("build", "more"), CASES.values(), ids=CASES)
def test_one_worker_gives_what_one_process_gives(strategy, build, more):
    one, model = build(), within(strategy, build)
    histories = []
    for each in (one, model):
        np.random.seed(3)  # by which Keras shuffles
        histories.append(each.fit(**DATA, **more, epochs=2, verbose=0).history)
    close(histories[1], histories[0])
    same(values(model), values(one))
    close(
        model.evaluate(**DATA, verbose=0, return_dict=True), one.evaluate(**DATA, verbose=0, return_dict=True)
    )
    found = model.predict(X[:ROWS], batch_size=16, verbose=0)
    np.testing.assert_allclose(found, one.predict(X[:ROWS], batch_size=16, verbose=0), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_single_batches(strategy):
    one, model = plain(metrics=["accuracy"]), within(strategy, plain, metrics=["accuracy"])
    for _ in range(2):
        found, expected = (each.train_on_batch(X[:16], Y[:16], return_dict=True) for each in (model, one))
        close(found, expected)
    close(*(each.test_on_batch(X[:16], Y[:16], return_dict=True) for each in (model, one)))
    found, expected = (each.predict_on_batch(X[:16]) for each in (model, one))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_scaled_losses(strategy):
    def build():
        model = plain()
        model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)), model.loss)
        return model

    one, model = build(), within(strategy, build)
    for each in (one, model):
        each.fit(**DATA, shuffle=False, verbose=0)
    same(values(model), values(one))


@pytest.mark.slow
def test_compiled_outside_of_the_scope(strategy):
    def compiled_later(scope):
        with scope:
            keras.utils.set_random_seed(7)
            model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"])
        return model

    one, model = compiled_later(contextlib.nullcontext()), compiled_later(strategy.scope())
    histories = [each.fit(**DATA, shuffle=False, epochs=2, verbose=0).history for each in (one, model)]
    close(histories[1], histories[0])
    same(values(model), values(one))
    assert int(model.optimizer.iterations) == 2 * STEPS


INPUTS = {
    "PyDataset": lambda: {"x": Batches(X[:ROWS], Y[:ROWS], 16)},
    "generator": lambda: {"x": generator(X[:ROWS], Y[:ROWS], 16), "steps_per_epoch": STEPS},
    "Dataset": lambda: {"x": Dataset.from_tensor_slices((X[:ROWS], Y[:ROWS])).batch(16)},
    "endless": lambda: {
        "x": Dataset.from_tensor_slices((X[:96], Y[:96])).repeat().batch(16),
        "steps_per_epoch": 6,
    },
}


@pytest.mark.samples("PyDataset")
@pytest.mark.parametrize("kind", INPUTS)
def test_inputs(strategy, kind):
    model, other = within(strategy, plain), plain()
    arguments = INPUTS[kind]()
    rows = 96 if arguments.get("steps_per_epoch") == 6 else ROWS
    history = model.fit(**arguments, shuffle=False, epochs=2, verbose=0).history
    expected = other.fit(X[:rows], Y[:rows], batch_size=16, shuffle=False, epochs=2, verbose=0).history
    close(history, expected)
    same(values(model), values(other))


def creator(context):
    return Dataset.from_tensor_slices((X[:96], Y[:96])).repeat().batch(16)


def failing(context):
    def elements():
        yield X[:16], Y[:16].astype(np.int32)
        raise KeyError("no such column")

    spec = {"output_types": (np.float32, np.int32), "output_shapes": ((16, 6), (16,))}
    return Dataset.from_generator(elements, **spec)


@pytest.mark.slow
def test_datasets_that_workers_make():
    with strategy_of() as strategy:
        data = DatasetCreator(creator)
        model, other = within(strategy, plain), plain()
        weighted = {"class_weight": {0: 0.5, 1: 2.0}, "verbose": 0}
        history = model.fit(data, steps_per_epoch=6, epochs=2, **weighted).history
        expected = other.fit(X[:96], Y[:96], batch_size=16, epochs=2, shuffle=False, **weighted).history
        close(history, expected)
        same(values(model), values(other))
        found = model.evaluate(data, steps=6, verbose=0)
        assert found == pytest.approx(other.evaluate(X[:96], Y[:96], verbose=0), rel=1e-4)
        with pytest.raises(ValueError, match="steps_per_epoch"):
            model.fit(data, verbose=0)

        dataset = ClusterCoordinator(strategy).create_per_worker_dataset(lambda: creator(None))
        assert model.fit(dataset, steps_per_epoch=3, verbose=0).history["loss"]
        with pytest.raises(ValueError, match=r"is for `fit`.*let workers share it"):
            model.evaluate(dataset, steps=3, verbose=0)

        model = within(strategy, plain)
        with pytest.raises(KeyError, match="no such column"):
            model.fit(DatasetCreator(failing), steps_per_epoch=5, verbose=0)
        assert int(model.optimizer.iterations.value) == 1
        assert model.fit(**DATA, verbose=0).history["loss"]


def three_batches(context):
    return Dataset.from_tensor_slices((X[:48], Y[:48])).batch(16)


def test_an_epoch_ends_when_no_worker_has_a_batch_left(caplog):
    """In whatever order the data of two workers ends; the next epoch begins a new pass."""
    with strategy_of(workers=2) as strategy:
        for steps in (6, 7, 20):
            caplog.clear()
            model = within(strategy, plain)
            data = DatasetCreator(three_batches)
            history = model.fit(data, steps_per_epoch=steps, epochs=2, verbose=0).history
            assert int(model.optimizer.iterations) == 12
            assert len(history["loss"]) == 2
            told = [each for each in caplog.messages if "The data of all workers ran out" in each]
            assert len(told) == (2 if steps > 6 else 0)
        history = model.fit(X[:32], Y[:32], batch_size=16, verbose=0).history
        assert len(history["loss"]) == 1


def five_batches(context):
    return Dataset.from_tensor_slices((X[:80], Y[:80])).batch(16)


def test_the_last_steps_of_a_worker_or_an_epoch_may_be_fewer_than_a_call_has(strategy):
    """TensorFlow 2.15.1 takes as many."""
    for asked, taken in ((20, 5), (4, 4)):
        model = within(strategy, plain, steps_per_execution=3)
        model.fit(DatasetCreator(five_batches), steps_per_epoch=asked, verbose=0)
        one = plain()
        one.fit(X[: 16 * taken], Y[: 16 * taken], batch_size=16, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations) == taken
        same(values(model), values(one))


@pytest.mark.slow
@pytest.mark.parametrize("several", [1, 3])
def test_a_dataset_that_workers_share(tmp_path, several):
    options = Options()
    options.experimental_distribute.dispatch = "dynamic"
    data = Dataset.from_tensor_slices((X[:ROWS], Y[:ROWS])).batch(16).with_options(options)
    arrays = {**DATA, "shuffle": False}
    one = dropping(steps_per_execution=several)
    expected = one.fit(**arrays, epochs=3, verbose=0).history

    def fit(*callbacks):
        with strategy_of() as strategy:
            model = within(strategy, dropping, steps_per_execution=several)
            backup = keras.callbacks.BackupAndRestore(tmp_path, save_freq=several)
            history = model.fit(data, epochs=3, verbose=0, callbacks=[backup, *callbacks]).history
            assert model.evaluate(data, verbose=0) == pytest.approx(one.evaluate(**DATA, verbose=0), rel=1e-4)
            found = model.predict(data, verbose=0)
            np.testing.assert_allclose(found, one.predict(X[:ROWS], verbose=0), rtol=1e-4, atol=1e-5)
            return history, values(model)

    with pytest.raises(OSError, match="killed here"):
        fit(KillsOnce())
    history, weights = fit()
    close(history, {name: each[1:] for name, each in expected.items()})
    same(weights, values(one))


class Looks(keras.callbacks.Callback):
    """Looks at the model after some steps, and changes it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            self.seen.append(int(self.model.optimizer.iterations.value))
            self.model.optimizer.learning_rate = 0.0
            self.seen.append(np.asarray(self.model.weights[0]))
        if batch == 5:
            self.seen.append(np.asarray(self.model.weights[0]))
            self.model.stop_training = True


def test_callbacks_see_the_model_after_all_steps_so_far_and_change_it(strategy):
    model, looks, losses = within(strategy, plain), Looks(), Losses()
    history = model.fit(**DATA, epochs=3, verbose=0, callbacks=[looks, losses]).history
    assert looks.seen[0] == 4
    np.testing.assert_array_equal(looks.seen[1], looks.seen[2])
    assert int(model.optimizer.iterations.value) == 6
    assert len(losses.losses) == 6
    assert len(history["loss"]) == 1


def test_the_best_weights_come_back_and_models_are_saved(strategy, tmp_path):
    model = within(strategy, plain)
    callbacks = [
        keras.callbacks.EarlyStopping("loss", mode="max", patience=1, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.ReduceLROnPlateau("loss", mode="max", patience=1, factor=0.5),
    ]
    history = model.fit(**DATA, epochs=5, verbose=0, shuffle=False, callbacks=callbacks).history
    assert len(history["loss"]) == 2  # it falls
    other = plain()
    other.load_weights(tmp_path / "1.weights.h5")
    same(values(model), values(other))
    assert float(model.optimizer.learning_rate) == pytest.approx(0.05)


class KillsOnce(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.value) >= 11:
            raise OSError("killed here")


@pytest.mark.samples("2")
@pytest.mark.parametrize("several", [1, 2])
def test_training_goes_on_at_the_exact_step(strategy, tmp_path, several):
    def fit(model, *callbacks):
        np.random.seed(3)
        backup = keras.callbacks.BackupAndRestore(tmp_path, save_freq=several)
        return model.fit(**DATA, epochs=3, verbose=0, callbacks=[backup, *callbacks]).history

    first, whole = (within(strategy, dropping, steps_per_execution=several) for _ in range(2))
    with pytest.raises(OSError, match="killed here"):
        fit(first, KillsOnce())
    again = within(strategy, dropping, steps_per_execution=several)
    history = fit(again)
    assert len(history["loss"]) == 2
    np.random.seed(3)
    expected = whole.fit(**DATA, epochs=3, verbose=0).history
    close(history, {name: each[1:] for name, each in expected.items()})
    same(values(again), values(whole))
    assert int(again.optimizer.iterations.value) == 3 * STEPS


def test_steps_are_ahead_of_their_results_which_are_not_fetched(strategy, monkeypatch):
    fetched, ahead = [], []
    fetch = RemoteValue.fetch
    monkeypatch.setattr(RemoteValue, "fetch", lambda self: fetched.append(self) or fetch(self))
    closures = ClusterCoordinator(strategy).closures

    class Steps(keras.utils.PyDataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            ahead.append(closures._queue.unfinished)
            return X[:16], Y[:16]

    within(strategy, plain).fit(Steps(), epochs=1, verbose=0, shuffle=False)
    assert not fetched
    assert 1 < max(ahead) <= 3


@pytest.mark.slow
def test_steps_that_add_again_and_again_count_everything(strategy):
    class Counts(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="examples")
            self.total = self.add_weight(name="total", initializer="zeros")
            self.last = self.add_weight(name="last", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(keras.ops.cast(keras.ops.shape(y_true)[0], "float32"))
            self.last.assign(keras.ops.cast(keras.ops.shape(y_true)[0], "float32"))

        def result(self):
            return self.total * 1000.0 + self.last

    def build():
        return plain(metrics=[Counts()], steps_per_execution=3)

    history = within(strategy, build).fit(**DATA, epochs=2, verbose=0, shuffle=False).history
    assert history["examples"] == [ROWS * 1000.0 + 4] * 2


@pytest.mark.slow
def test_a_model_that_nobody_has_any_more_is_let_go(strategy):
    model = within(strategy, plain)
    model.fit(**DATA, verbose=0)
    known = weakref.ref(model)
    del model
    gc.collect()
    assert known() is None


def test_training_ends_when_a_loss_is_not_a_number(strategy):
    model = within(strategy, plain)
    model.set_weights([np.full(each.shape, np.inf) for each in model.weights])
    history = model.fit(**DATA, epochs=3, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN()]).history
    assert len(history["loss"]) == 1
    assert int(model.optimizer.iterations.value) < STEPS


def test_what_goes_wrong_is_said(strategy):
    model = within(strategy, plain, run_eagerly=True)
    with pytest.raises(ValueError, match="run_eagerly=True debugs one process"):
        model.fit(**DATA, verbose=0)
    model = within(strategy, plain)
    with pytest.raises(ValueError, match="say how many batches make an epoch"):
        model.fit(Dataset.from_tensor_slices((X, Y)).repeat().batch(16), verbose=0)
    with strategy.scope():
        uncompiled = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
        with pytest.raises(ValueError, match="must call `compile"):
            uncompiled.fit(**DATA, verbose=0)
        assert uncompiled.predict(X[:4], verbose=0).shape == (4, 3)
    outside = plain()
    with strategy.scope(), pytest.raises(ValueError, match="was not created in the scope"):
        outside.fit(**DATA, verbose=0)


class Broken(keras.Model):
    def train_step(self, state, data):
        raise RuntimeError("the user's own line")


def test_errors_of_steps_and_data_come_up_and_the_model_goes_on(strategy):
    def build():
        keras.utils.set_random_seed(7)
        x = keras.Input((6,))
        model = Broken(x, layers.Dense(3)(x))
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model

    with pytest.raises(RuntimeError, match="the user's own line") as caught:
        within(strategy, build).fit(**DATA, verbose=0)
    assert any(entry.name == "train_step" for entry in caught.traceback)

    model = within(strategy, plain)
    labels = np.array(Y[:ROWS])
    labels[40] = 7
    with pytest.raises(DatasetError, match="7"):
        model.fit(X[:ROWS], labels, batch_size=16, verbose=0, shuffle=False)
    with pytest.raises(DatasetError, match="x"):
        model.fit(np.array(["text"] * 6).reshape(1, 6), Y[:1], verbose=0)

    assert model.fit(**DATA, verbose=0).history["loss"]


def test_ctrl_c_leaves_a_model_that_goes_on(strategy):
    class Interrupts(keras.utils.PyDataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            if index == 10:
                os.kill(os.getpid(), signal.SIGINT)
            return X[:16], Y[:16]

    model = within(strategy, plain)
    with pytest.raises(KeyboardInterrupt):
        model.fit(Interrupts(), verbose=0, shuffle=False)
    assert ClusterCoordinator(strategy).done()
    assert 1 <= int(model.optimizer.iterations.value) <= 11
    assert model.fit(**DATA, verbose=0).history["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_steps_of_its_own(strategy, kind):
    """Callbacks see the newest results that have arrived; all else is what comes of one process."""
    found, expected = outcome(strategy, kind), outcome(get_strategy(), kind)
    check_outcome(found | {"losses": expected["losses"]}, expected)


@pytest.mark.slow
def test_a_gan_goes_on_where_it_was_interrupted(strategy, tmp_path):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.g_optimizer.iterations.value) == 6:
                raise ZeroDivisionError

    def train(*callbacks):
        with strategy.scope():
            model = compiled("GAN")
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", save_freq=2)
        model.fit(X[:ROWS], batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[backup, *callbacks])
        return all_values(model)

    with pytest.raises(ZeroDivisionError):
        train(Fails())
    resumed = train()
    for one, other in zip(resumed, train(), strict=True):
        np.testing.assert_array_equal(one, other)
