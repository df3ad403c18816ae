"""What `fit` takes under a strategy, and what it refuses."""

import functools
import gc
import threading
import warnings
import weakref
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from fit_cases import BATCH, ROWS, WEIGHTS, Losses, X, Y, build, built, generator, same, sequential, values

from muster import summary
from muster._errors import CheckpointError, DatasetError
from muster._keras import keras
from muster.checkpoint import write_checkpoint
from muster.data import Dataset
from muster.distribute import MirroredStrategy, get_strategy
from muster.distribute.fit._fit_backup import backup_of

layers = keras.layers
STEPS = -(-ROWS // BATCH)

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def strategy():
    return MirroredStrategy(["/cpu:0", "/cpu:1"])


def weights_after_fit(strategy, epochs=2, **compile_args):
    model = build(strategy, **compile_args)
    model.fit(X, Y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0)
    return values(model)


@pytest.fixture(scope="module")
def expected(strategy):
    return weights_after_fit(strategy)


def test_several_steps_in_one_call(strategy, expected):
    same(weights_after_fit(strategy, steps_per_execution=3), expected)


@pytest.mark.slow
def test_without_compiling(strategy):
    """Also a batch that replicas cannot share."""

    def train(**compile_args):
        with strategy.scope():
            model = built("functional", "sgd", **compile_args)
        model.fit(X[:57], Y[:57], batch_size=BATCH, shuffle=False, verbose=0)
        return values(model)

    same(train(run_eagerly=True), train())


def test_a_step_costs_keras_no_search_of_its_values(strategy, monkeypatch):
    tracked = []
    track = keras.src.utils.tracking.Tracker.track

    def counted(self, attr):
        tracked.append(attr)
        return track(self, attr)

    def values_of_steps(layer_count):
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(1) for _ in range(layer_count)])
            model.compile("adam", "mse")
        model.fit(X, Y, batch_size=BATCH, verbose=0)
        tracked.clear()
        model.fit(X, Y, batch_size=BATCH, epochs=3, verbose=0)
        return len(tracked)

    monkeypatch.setattr(keras.src.utils.tracking.Tracker, "track", counted)
    assert values_of_steps(2) == values_of_steps(6) > 0


@pytest.mark.slow
def test_several_steps_in_one_call_of_data_of_unknown_length(strategy):
    dataset = Dataset.from_tensor_slices((X, Y)).filter(lambda x, y: y < 3).batch(64)
    model = build(strategy, steps_per_execution=2)
    model.fit(dataset, epochs=2, verbose=0)
    assert int(model.optimizer.iterations) == 2 * 4
    assert model.predict(dataset.map(lambda x, y: x), verbose=0).shape == (ROWS, 3)


@pytest.mark.slow
def test_a_part_of_a_dataset_that_validates_is_the_same_in_each_epoch(strategy):
    with strategy.scope():
        model = built("functional", "sgd")
    model.optimizer.learning_rate = 0.0
    model.layers[-2].momentum = 1.0  # and batch normalization keeps its statistics
    dataset = Dataset.from_tensor_slices((X, Y)).batch(64)
    history = model.fit(X, Y, epochs=3, verbose=0, validation_data=dataset, validation_steps=3).history
    assert history["val_loss"] == [history["val_loss"][0]] * 3


def test_one_batch_after_the_other(strategy, expected):
    model = build(strategy)
    for _ in range(2):
        for start in range(0, ROWS, BATCH):
            logs = model.train_on_batch(X[start : start + BATCH], Y[start : start + BATCH], return_dict=True)
    same(values(model), expected)
    assert 0 < logs["loss"] < 2
    assert model.test_on_batch(X, Y, return_dict=True)["accuracy"] > 0.5
    np.testing.assert_allclose(model.predict_on_batch(X), model.predict(X, verbose=0), atol=1e-5)


@pytest.mark.slow
def test_a_callback_may_train_on_a_batch_of_its_own(strategy):
    """After each epoch; fit goes on with its own."""

    def train(*data, **arguments):
        model = build(strategy)
        extra = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: model.train_on_batch(X[:BATCH], Y[:BATCH])
        )
        model.fit(*data, epochs=2, shuffle=False, verbose=0, callbacks=[extra], **arguments)
        assert int(model.optimizer.iterations) == 2 * (STEPS + 1)
        return values(model)

    same(train(Dataset.from_tensor_slices((X, Y)).batch(BATCH)), train(X, Y, batch_size=BATCH))


def test_epochs_that_are_a_number_of_batches(strategy, expected):
    """The second epoch goes on where the first one stopped, and the third at the start."""
    model = build(strategy)
    dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH).repeat()
    history = model.fit(dataset, epochs=4, steps_per_epoch=STEPS // 2, verbose=0).history
    same(values(model), expected)
    assert len(history["loss"]) == 4


def test_epochs_from_a_later_one(strategy):
    history = build(strategy).fit(X, Y, batch_size=BATCH, initial_epoch=3, epochs=5, verbose=0)
    assert history.epoch == [3, 4]


@pytest.mark.slow
def test_a_part_of_the_data_validates(strategy):
    found = build(strategy).fit(X, Y, batch_size=BATCH, validation_split=0.2, verbose=0, shuffle=False)
    again = build(get_strategy()).fit(X, Y, batch_size=BATCH, validation_split=0.2, verbose=0, shuffle=False)
    assert found.history["val_loss"] == pytest.approx(again.history["val_loss"], abs=1e-5)


def test_a_dataset_to_predict(strategy):
    model = build(strategy)
    dataset = Dataset.from_tensor_slices(X).batch(BATCH)
    np.testing.assert_allclose(model.predict(dataset, verbose=0), model.predict(X, verbose=0), atol=1e-6)


def test_mixed_precision(strategy):
    """Of which loss scaling is a part: its steps are counted, and its scale stays finite."""
    with strategy.scope():
        keras.utils.set_random_seed(1)
        policy = keras.mixed_precision.DTypePolicy("mixed_float16")
        model = keras.Sequential([layers.Dense(16, activation="relu", dtype=policy), layers.Dense(3)])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**24)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(X, Y, batch_size=BATCH, epochs=6, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert float(optimizer.dynamic_scale) < 2.0**24  # it was too large at first


def test_a_step_of_the_user(strategy):
    class Doubled(keras.Model):
        def __init__(self):
            super().__init__()
            self.out = layers.Dense(3)

        def call(self, x):
            return self.out(x)

        def train_step(self, state, data):
            x, y = data
            return super().train_step(state, (2 * x, y))

    def train(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(2)
            model = Doubled()
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model.fit(X, Y, batch_size=BATCH, verbose=0, shuffle=False).history["loss"]

    assert train(strategy) == pytest.approx(train(get_strategy()), abs=1e-5)


def test_a_model_that_is_not_compiled_predicts(strategy):
    with strategy.scope():
        model = sequential()
    predicted = model.predict(X, batch_size=BATCH, verbose=0)
    np.testing.assert_allclose(predicted, np.asarray(model(X)), atol=1e-6)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_model_that_is_saved_and_loaded(strategy, tmp_path):
    model = build(strategy)
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras", save_freq=3)
    model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0, callbacks=[checkpoint])
    model.save(tmp_path / "model.keras")
    with strategy.scope():
        loaded = keras.models.load_model(tmp_path / "model.keras")
    same(values(loaded), values(model))
    loaded.fit(X, Y, batch_size=BATCH, verbose=0)
    assert (tmp_path / "1.keras").exists()


def test_scalars_for_tensorboard(strategy, tmp_path):
    board = keras.callbacks.TensorBoard(tmp_path, update_freq=4)
    build(strategy).fit(
        X, Y, batch_size=BATCH, epochs=2, verbose=0, callbacks=[board], validation_data=(X, Y)
    )
    found = {
        run.name: {(event.tag, event.step) for event in summary.read_events(run)}
        for run in tmp_path.iterdir()
    }
    assert {("epoch_loss", 1), ("epoch_learning_rate", 1), ("batch_loss", 12)} <= found["train"]
    assert {("epoch_loss", 1), ("evaluation_loss_vs_iterations", 16)} <= found["validation"]
    model = build(strategy)
    model.evaluate(X, Y, verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path / "alone")])
    tags = [event.tag for event in summary.read_events(tmp_path / "alone" / "validation")]
    assert "evaluation_loss_vs_iterations" in tags


class Interrupt(keras.callbacks.Callback):
    def __init__(self, after):
        super().__init__()
        self.after = after

    def on_train_batch_end(self, batch, logs=None):
        self.after -= 1
        if self.after == 0:
            raise InterruptedError


def train_in_epochs(strategy, data, *callbacks):
    """The losses of three epochs, and the weights."""
    model = build(strategy)
    losses = Losses()
    given = {"batch_size": BATCH, "y": Y, "x": X}
    if data != "arrays":
        given = {"x": Dataset.from_tensor_slices((X, Y)).shuffle(ROWS).batch(BATCH)}
    if data == "dataset in parts":
        given = {"x": given["x"].repeat(), "steps_per_epoch": 5}
    model.fit(**given, epochs=3, verbose=0, callbacks=[losses, *callbacks])
    return losses.losses, values(model)


@pytest.fixture(scope="module")
def uninterrupted(strategy):
    return functools.cache(lambda data: train_in_epochs(strategy, data))


@pytest.mark.samples("arrays-3", "dataset-8")
@pytest.mark.parametrize(
    ("data", "freq"),
    [
        ("arrays", 3),
        ("arrays", STEPS),  # at the last step of an epoch
        ("arrays", "epoch"),
        ("dataset", STEPS),
        ("dataset in parts", 3),
    ],
)
def test_a_backup_goes_on_at_the_exact_batch(strategy, uninterrupted, tmp_path, data, freq):
    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup", save_freq=freq)

    losses, weights = uninterrupted(data)
    with pytest.raises(InterruptedError):
        train_in_epochs(strategy, data, backup(), Interrupt(after=14))
    np.random.seed(5)  # another process
    again, same_weights = train_in_epochs(strategy, data, backup())
    for one, other in zip(weights, same_weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert again[-3:] == losses[-3:]
    assert not (tmp_path / "backup").exists()


@pytest.mark.slow
def test_a_fit_that_was_resumed_lets_go_of_its_data(strategy, tmp_path):
    def train(data, *callbacks):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", save_freq=2)
        model = build(strategy)
        model.fit(data, epochs=2, verbose=0, callbacks=[backup, *callbacks])
        return model

    data = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
    with pytest.raises(InterruptedError):
        train(data, Interrupt(after=5))
    model = train(data)
    assert int(model.optimizer.iterations.value) == 2 * STEPS
    gone = weakref.ref(data)
    del data
    gc.collect()
    assert gone() is None


def test_a_backup_of_another_model(strategy, tmp_path):
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)
    build(strategy).fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[backup])
    with strategy.scope():
        other = built("sequential", "sgd")
    with pytest.raises(RuntimeError, match="is of another model"):
        other.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0, callbacks=[backup])


def test_a_checkpoint_that_is_no_backup(strategy, tmp_path):
    write_checkpoint(tmp_path, 1, {"model/0": np.zeros(2)}, {"epoch": 0, "global_step": 1})
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"its metadata has \['epoch', 'global_step'\], .* Delete the dir"
    ):
        build(strategy).fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[backup])


@pytest.mark.parametrize(("name", "left"), [("workertemp_1", False), ("workertemp_0", True)])
def test_a_worker_removes_its_temporary_directory(tmp_path, name, left):
    folder = tmp_path / name
    folder.mkdir()
    worker = SimpleNamespace(is_chief=False, name="worker 1", on=lambda *values: [[None]])
    backup_of(keras.callbacks.BackupAndRestore(folder), worker, None, None, None).on_train_end()
    assert folder.exists() == left


def test_nothing_is_compiled_anew(strategy):
    """After the first epoch, that is; and nothing stays of models, threads or variables."""
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, secs, **kw: compilations.append(event) if "backend_compile" in event else None
    )
    try:
        model = build(strategy)
        counts = []
        count = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: counts.append(len(compilations))
        )
        threads = threading.active_count()
        for _ in range(2):
            model.fit(X, Y, batch_size=BATCH, epochs=3, verbose=0, callbacks=[count], validation_data=(X, Y))
        assert counts[0] > 0
        assert counts[1:] == [counts[1]] * 5
        assert threading.active_count() <= threads
    finally:
        jax.monitoring.clear_event_listeners()
    gone = weakref.ref(model)
    del model, count
    gc.collect()
    assert gone() is None


class TestRefused:
    def test_a_model_of_no_scope(self, strategy):
        model = sequential()
        with strategy.scope(), pytest.raises(ValueError, match="was not created in the scope of Mirrored"):
            model.compile("sgd", "mse")
        model.compile("sgd", "mse")
        with strategy.scope(), pytest.raises(ValueError, match="was not created in the scope of Mirrored"):
            model.fit(X, Y, verbose=0)

    def test_a_model_of_another_strategy(self, strategy):
        model = build(strategy)
        with MirroredStrategy().scope(), pytest.raises(RuntimeError, match="Mixing different"):
            model.fit(X, Y, verbose=0)

    def test_targets_beside_a_dataset(self, strategy):
        dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
        with pytest.raises(ValueError, match="`y` should not be given"):
            build(strategy).fit(dataset, Y, verbose=0)

    def test_a_batch_size_beside_a_dataset_means_nothing(self, strategy):
        dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
        model = build(strategy)
        model.fit(dataset, batch_size=1, verbose=0)
        assert int(model.optimizer.iterations) == len(dataset)

    def test_data_without_end(self, strategy):
        dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH).repeat()
        with pytest.raises(ValueError, match="steps_per_epoch"):
            build(strategy).fit(dataset, verbose=0)

    def test_distributed_data_without_end(self, strategy):
        dataset = Dataset.from_tensor_slices((X, Y)).batch(BATCH).repeat()
        distributed = strategy.distribute_datasets_from_function(lambda context: dataset)
        with pytest.raises(ValueError, match="steps_per_epoch"):
            build(strategy).fit(distributed, verbose=0)

    def test_a_list_of_callbacks_that_is_no_list(self, strategy):
        with pytest.raises(TypeError, match="give fit a list"):
            build(strategy).fit(X, Y, verbose=0, callbacks=keras.callbacks.CallbackList([]))

    def test_a_backup_of_longer_epochs(self, strategy, tmp_path):
        def train(batch_size, *callbacks):
            backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", save_freq=5)
            build(strategy).fit(
                X, Y, batch_size=batch_size, epochs=2, verbose=0, callbacks=[backup, *callbacks]
            )

        with pytest.raises(InterruptedError):
            train(BATCH, Interrupt(after=6))
        with pytest.raises(RuntimeError, match="1 steps more than one has now"):
            train(2 * BATCH)

    def test_no_data(self, strategy):
        dataset = Dataset.from_tensor_slices((X[:0], Y[:0])).batch(BATCH)
        with pytest.raises(DatasetError, match="empty"):
            build(strategy).fit(dataset, verbose=0)

    def test_data_that_is_not_batched(self, strategy):
        with pytest.raises(ValueError, match="Call the `batch` method"):
            build(strategy).fit(Dataset.from_tensor_slices((X, Y)), verbose=0)

    def test_weights_twice(self, strategy):
        dataset = Dataset.from_tensor_slices((X, Y, WEIGHTS)).batch(BATCH)
        with pytest.raises(ValueError, match="not both"):
            build(strategy).fit(dataset, class_weight={0: 2.0}, verbose=0)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [({"a": Y}, "models with one output"), (np.zeros((len(X), 3, 2)), r"got \(\d+, 3, 2\)")],
    )
    def test_class_weights_of_other_labels(self, strategy, labels, message):
        dataset = Dataset.from_tensor_slices((X, labels)).batch(BATCH)
        with pytest.raises(ValueError, match=message):
            build(strategy).fit(dataset, class_weight={0: 2.0}, verbose=0)


def test_batches_that_replicas_cannot_share_are_named_once(strategy, caplog):
    build(strategy).fit(X, Y, batch_size=25, epochs=2, verbose=0)
    assert caplog.text.count("cannot share a batch of 25 rows") == 1


def test_fewer_rows_than_replicas(strategy, caplog):
    """Works, as one device does; it is said, since all but one replica work for nothing."""
    build(strategy).fit(X[:4], Y[:4], batch_size=1, verbose=0)
    assert "cannot share a batch of 1 rows" in caplog.text


def test_a_generator_that_ends(strategy):
    batches = generator()
    with pytest.warns(UserWarning, match="ran out of data"):
        build(strategy).fit(
            (next(batches) for _ in range(5)), epochs=1, steps_per_epoch=8, shuffle=False, verbose=0
        )


@pytest.mark.parametrize("library", ["grain", "torch"])
def test_loaders_of_others(strategy, library):
    module = pytest.importorskip(library)
    if library == "grain":
        loader = module.MapDataset.source(list(zip(X, Y, strict=True))).batch(BATCH)
        loader = loader.to_iter_dataset(module.ReadOptions(num_threads=0))
    else:
        rows = module.utils.data.TensorDataset(module.from_numpy(X), module.from_numpy(Y))
        loader = module.utils.data.DataLoader(rows, batch_size=BATCH)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        found = build(strategy).fit(loader, shuffle=False, verbose=0)
    whole = build(strategy).fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0)
    assert found.history["loss"] == pytest.approx(whole.history["loss"], abs=1e-6)
