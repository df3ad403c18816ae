"""Evaluation, prediction and export that read rows of tables alone: as with whole tables, bit for bit."""

import contextlib
import gc
import os
import shutil

import jax
import numpy as np
import pytest
from local_servers import servers

import bundles
import muster
from canned_models import OF_EACH_KIND, X, batches, made
from muster._errors import DatasetError
from muster._keras import keras
from muster.checkpoint import MappedArray, MappedFile, _mapped_array
from muster.checkpoint._manifest import read_manifest
from muster.data import Dataset, TensorSpec, wide_ids
from muster.distribute import FixedShardsPartitioner, MirroredStrategy, OneDeviceStrategy
from muster.distribute.engine import _rows_in_files, _shards
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    ModeKeys,
    PredictOutput,
    RunConfig,
    SessionRunHook,
    build_raw_serving_input_receiver_fn,
)
from muster.estimator.loop import _setup
from muster.program.variables import InitialValue, _initial_values
from muster.saved_model import _load, load
from noted_losses import Losses

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]


def evaluated(estimator, name):
    """What an Estimator finds in its newest checkpoint: metrics and predictions."""
    metrics = estimator.evaluate(lambda: batches(name), steps=2)
    features = Dataset.from_tensor_slices(X).batch(24)  # the last one is smaller
    return metrics, list(estimator.predict(lambda: features))


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@pytest.fixture
def reads(monkeypatch):
    """What is read of variables in files: the shapes of rows, and of what is read as a whole."""
    found = {"rows": [], "whole": []}
    rows, pieces = MappedArray.rows, MappedArray.pieces

    def noted_rows(self, numbers):
        found["rows"].append(self.shape)
        return rows(self, numbers)

    def noted_pieces(self):
        found["whole"].append(self.shape)
        return pieces(self)

    monkeypatch.setattr(MappedArray, "rows", noted_rows)
    monkeypatch.setattr(MappedArray, "pieces", noted_pieces)
    return found


@pytest.mark.samples("DNNLinearCombinedEstimator")
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_the_results_are_those_of_whole_tables(tmp_path, monkeypatch, reads, name):
    estimator = made(name, tmp_path)
    estimator.train(lambda: batches(name), steps=1)
    metrics, predictions = evaluated(estimator, name)
    assert not reads["rows"]
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 50 * 4)
    found, predicted = evaluated(estimator, name)
    assert_same(found, metrics)
    assert len(predicted) == len(predictions)
    for one, other in zip(predicted, predictions, strict=True):
        assert_same(one, other)
    tables = {shape for shape in reads["rows"] if shape[0] >= 50}
    assert tables or name == "BaselineEstimator"
    assert tables.isdisjoint(reads["whole"])


ROWS, SIZE = 60, 4
IDS = np.random.default_rng(1).integers(0, ROWS, (20, 3)).astype("int32")


def model_fn(features, labels, mode, params):
    """A table that is looked up, a large kernel, and slots that evaluation does not read."""
    regularizer = keras.regularizers.L2(0.1) if params == "regularizer" else None
    table = keras.layers.Embedding(ROWS, SIZE, name="table", embeddings_regularizer=regularizer)
    rows = table(features["id"])
    if params == "print":
        jax.debug.print("a step")
    hidden = keras.layers.Dense(ROWS, name="wide")(keras.ops.reshape(rows, (-1, 3 * SIZE)))
    logits = keras.ops.sum(hidden, 1)
    outputs = {"serving_default": PredictOutput({"logits": logits})}
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"logits": logits}, export_outputs=outputs)
    loss = keras.ops.mean(keras.ops.square(logits - labels))
    if regularizer is not None:
        loss += table.losses[0]
    step = muster.minimize(keras.optimizers.Adagrad(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step if mode == ModeKeys.TRAIN else None)


def examples():
    return Dataset.from_tensor_slices(({"id": IDS}, IDS[:, 0].astype("float32"))).batch(8)


def refuse(self, *args, **kwargs):
    raise AssertionError(f"an array of shape {self.shape} is read as a whole")


@contextlib.contextmanager
def copied_folder(folder):
    """Put a folder back as it was."""
    shutil.copytree(folder, f"{folder}-before")
    yield
    shutil.rmtree(folder)
    os.rename(f"{folder}-before", folder)


@pytest.fixture
def trained(tmp_path):
    """Returns an Estimator of `model_fn` that was trained for a step."""

    def make(params="", **config):
        estimator = Estimator(model_fn, tmp_path / "model", RunConfig(tf_random_seed=1, **config), params)
        if estimator.latest_checkpoint() is None:
            estimator.train(examples, steps=1)
        return estimator

    return make


def replicas(count):
    return MirroredStrategy([f"/cpu:{device}" for device in range(count)])


TABLE, KERNEL = (ROWS, SIZE), (3 * SIZE, ROWS)


@pytest.mark.parametrize(
    ("params", "config", "rows", "whole"),
    [
        ("", {}, {TABLE}, {KERNEL}),
        ("", {"eval_distribute": lambda: OneDeviceStrategy("/cpu:1")}, {TABLE}, {KERNEL}),
        ("", {"eval_distribute": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"])}, {TABLE}, {KERNEL}),
        (
            "",
            {"eval_distribute": lambda: MirroredStrategy(["/cpu:0", "/cpu:1", "/cpu:2"])},
            {TABLE},
            {KERNEL},
        ),
        ("regularizer", {}, set(), {TABLE, KERNEL}),
        ("print", {}, set(), {TABLE, KERNEL}),
    ],
    ids=["device", "other device", "replicas", "uneven replicas", "regularizer", "print"],
)
def test_what_is_looked_up_is_read_by_rows_and_all_else_once(
    trained, monkeypatch, reads, params, config, rows, whole
):
    estimator = trained(params, **{key: make() for key, make in config.items()})
    expected = estimator.evaluate(examples)
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    assert_same(estimator.evaluate(examples), expected)
    assert set(reads["rows"]) == rows
    assert set(reads["whole"]) == whole
    every = 2 if rows == set() and params != "regularizer" else 1  # slots, too
    assert len(reads["whole"]) == len(whole) * every
    strategy = estimator.config.eval_distribute
    count = 1 if strategy is None else strategy.num_replicas_in_sync
    assert len(reads["rows"]) == -(-len(IDS) // (8 * count)) * len(rows)


def test_rows_that_servers_wrote_are_read_with_those_that_have_changed(tmp_path, monkeypatch, reads):
    monkeypatch.setattr(_shards, "LEAST_ROWS_BYTES", 0)
    with servers(2, FixedShardsPartitioner(2)) as strategy:
        config = RunConfig(tf_random_seed=1, train_distribute=strategy, save_checkpoints_steps=1)
        Estimator(model_fn, tmp_path, config, "").train(examples, steps=3)
    estimator = Estimator(model_fn, tmp_path, RunConfig(), "")
    manifest = read_manifest(estimator.latest_checkpoint())
    pieces = manifest.variables["table/embeddings"].pieces
    assert len(pieces) == 2
    assert any(piece.changes for piece in pieces)
    expected = estimator.evaluate(examples)
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    assert_same(estimator.evaluate(examples), expected)
    assert reads["rows"] == [TABLE] * 3


def hashed_model_fn(features, labels, mode, params):
    rows = muster.layers.HashEmbedding(SIZE, combiner="mean", name="hashed")(features["wide"])
    table = keras.layers.Embedding(ROWS, SIZE, name="table")(features["id"])
    outputs = keras.layers.Dense(1)(keras.ops.concatenate([rows, table[:, 0]], axis=1))[:, 0]
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"outputs": outputs})
    loss = keras.ops.mean((outputs - labels) ** 2)
    step = muster.minimize(keras.optimizers.Adagrad(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step)


def with_wide_ids(first=0, last=24):
    """Ids of a hashed table beside those of one with a number of rows."""
    features = {"wide": wide_ids(IDS[first:last].astype("int64") * 2**40 - 7), "id": IDS[first:last]}
    return Dataset.from_tensor_slices((features, np.float32(IDS[first:last, 0] % 2))).batch(8)


@pytest.mark.parametrize(("place", "replicas"), [("one process", 1), ("two servers", 2)])
def test_rows_of_hashed_tables_are_read_by_id(tmp_path, monkeypatch, reads, place, replicas):
    """Those of both servers, some written with all others, some since; ids without a row, too."""
    training = servers(2) if place == "two servers" else contextlib.nullcontext()
    with training as strategy:
        config = RunConfig(tf_random_seed=1, train_distribute=strategy, save_checkpoints_steps=1)
        trained = Estimator(hashed_model_fn, tmp_path / "model", config)
        trained.train(lambda: with_wide_ids(0, 24).concatenate(with_wide_ids(0, 2)))
    manifest = read_manifest(trained.latest_checkpoint())
    assert all(piece.changes for piece in manifest.variables["hashed/embeddings"].pieces)
    mirrored = MirroredStrategy(jax.devices()[:2]) if replicas == 2 else None
    estimator = Estimator(hashed_model_fn, tmp_path / "model", RunConfig(eval_distribute=mirrored))

    def found():
        outputs = [each["outputs"] for each in estimator.predict(lambda: with_wide_ids(0, len(IDS)))]
        receiver = build_raw_serving_input_receiver_fn(
            {"wide": TensorSpec((None, 3, 2), "uint32"), "id": TensorSpec((None, 3), "int32")}
        )
        path = estimator.export_saved_model(tmp_path / "export", receiver)
        answers = load(path).signatures["serving_default"](
            wide=wide_ids(IDS.astype("int64") * 2**40 - 7), id=IDS
        )
        metrics = estimator.evaluate(lambda: with_wide_ids(0, len(IDS)))
        return {**metrics, "outputs": np.array(outputs), "answers": answers["outputs"]}

    expected = found()
    np.testing.assert_allclose(expected["answers"], expected["outputs"], rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 24 * SIZE * 4)
    reads["rows"].clear()
    reads["whole"].clear()
    with monkeypatch.context() as patch:
        patch.setattr(MappedArray, "__array__", refuse)
        assert_same(found(), expected)
    steps = [shape for shape in reads["rows"] if shape == TABLE]
    assert len(reads["rows"]) == 2 * len(steps) + 1  # and for the export


def test_hooks_read_and_set_variables_in_files(trained, monkeypatch):
    estimator = trained()
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    before = estimator.get_variable_value("table/embeddings")

    class Halves(SessionRunHook):
        def after_create_session(self, session, coord):
            np.testing.assert_array_equal(session.get_variable_value("table/embeddings"), before)
            session.set_variable_value("table/embeddings", before / 2)

    found = [each["logits"] for each in estimator.predict(examples, hooks=[Halves()])]
    kernel, bias = (estimator.get_variable_value(f"wide/{name}") for name in ("kernel", "bias"))
    logits = ((before / 2)[IDS].reshape(len(IDS), -1) @ kernel + bias).sum(1)
    np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-5)


def test_ids_of_no_row_give_what_they_give_with_a_whole_table(trained, monkeypatch):
    estimator = trained()
    ids = IDS.copy()
    ids[3, 1], ids[5, 0] = ROWS, -1

    def wrong():
        return Dataset.from_tensor_slices({"id": ids}).batch(8)

    expected = [each["logits"] for each in estimator.predict(wrong)]
    assert np.isnan(expected[3])
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    np.testing.assert_array_equal([each["logits"] for each in estimator.predict(wrong)], expected)


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_an_evaluation_names_the_id_of_no_row(trained, monkeypatch, most):
    estimator = trained()
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    monkeypatch.setattr(_setup, "_RUN_EAGERLY_BYTES", most)
    wrong = {"id": IDS + ROWS}, IDS[:, 0].astype("float32")
    with pytest.raises(DatasetError, match=rf"table.*outside the valid range of \[0, {ROWS}\)"):
        estimator.evaluate(lambda: Dataset.from_tensor_slices(wrong).batch(8))


def test_training_goes_on_as_from_whole_arrays(trained, monkeypatch, reads):
    def losses():
        seen = Losses()
        trained().train(examples, hooks=[seen], steps=2)
        return seen.losses

    trained()
    monkeypatch.setattr(_rows_in_files, "_AT_ONCE", 0)
    with copied_folder(trained().model_dir):
        expected = losses()
    assert not reads["whole"]
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    assert losses() == expected
    assert set(reads["whole"]) == {TABLE, KERNEL}  # and slots of these shapes
    assert len(reads["whole"]) == 4


@pytest.mark.parametrize("of_tensorflow", [False, True])
def test_a_warm_start_reads_in_pieces_and_makes_no_other_value(
    trained, tmp_path, monkeypatch, reads, of_tensorflow
):
    source = trained()
    values = {name: source.get_variable_value(name) for name in source.get_variable_names()}
    path = source.latest_checkpoint()
    if of_tensorflow:
        path = tmp_path / "model.ckpt-1"
        bundles.write(path, {name: value for name, value in values.items() if "/" in name})
    made = []
    original = InitialValue.make
    monkeypatch.setattr(InitialValue, "make", lambda self: made.append(self.shape) or original(self))
    for module, name in (
        (_mapped_array, "LEAST_MAPPED_BYTES"),
        (_initial_values, "_LEAST_LATER_BYTES"),
        (_initial_values, "_IN_PIECES_BYTES"),
    ):
        monkeypatch.setattr(module, name, ROWS * SIZE * 4)
    monkeypatch.setattr(_rows_in_files, "_AT_ONCE", 0)
    monkeypatch.setattr(MappedArray, "__array__", refuse)
    started = {}

    class Note(SessionRunHook):
        def after_create_session(self, session, coord):
            started.update({name: session.get_variable_value(name) for name in session.variables()})

    other = Estimator(model_fn, tmp_path / "other", RunConfig(tf_random_seed=5), "", path)
    other.train(examples, hooks=[Note()], steps=1)
    for name in ("table/embeddings", "wide/kernel", "wide/bias"):
        np.testing.assert_array_equal(started[name], values[name])
    assert (started["adagrad/table_embeddings_accumulator"] == np.float32(0.1)).all()
    assert sorted(reads["whole"]) == sorted([TABLE, KERNEL])
    large = [shape for shape in made if np.prod(shape) >= ROWS * SIZE]
    assert sorted(large) == sorted([TABLE, KERNEL])  # of the slots


def test_an_export_has_large_variables_in_pieces(trained, tmp_path, monkeypatch):
    estimator = trained()
    expected = np.array([each["logits"] for each in estimator.predict(examples)])
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    monkeypatch.setattr(MappedArray, "__array__", refuse)
    receiver = build_raw_serving_input_receiver_fn({"id": TensorSpec((None, 3), "int32")})
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    found = load(path).signatures["serving_default"](id=IDS)
    np.testing.assert_allclose(found["logits"], expected, rtol=1e-5)


def test_a_loaded_export_leaves_large_weights_in_its_file(trained, tmp_path, monkeypatch):
    receiver = build_raw_serving_input_receiver_fn({"id": TensorSpec((None, 3), "int32")})
    path = trained().export_saved_model(tmp_path / "export", receiver)
    expected = load(path).signatures["serving_default"](id=IDS)
    files, placed = [], []
    make, put = MappedFile.__init__, jax.device_put
    monkeypatch.setattr(_load, "_LEAST_MAPPED_BYTES", ROWS * SIZE * 4)
    monkeypatch.setattr(MappedFile, "__init__", lambda self, file: files.append(self) or make(self, file))

    def noted(value, **options):
        placed.append((value, put(value, **options)))
        return placed[-1][1]

    monkeypatch.setattr(_load.jax, "device_put", noted)
    load(path)
    # Small ones are in memory, where JAX may take them as they are, too, if they happen to begin as it wants.
    in_file = [
        value.shape
        for value, array in placed
        if value.nbytes >= ROWS * SIZE * 4 and array.unsafe_buffer_pointer() == value.ctypes.data
    ]
    assert in_file == [TABLE, KERNEL]
    forgotten = []
    monkeypatch.setattr(MappedFile, "forget", lambda self: forgotten.append(self))
    signature = load(path).signatures["serving_default"]
    assert_same(signature(id=IDS), expected)
    assert forgotten == files[1:]
    for held in (files, placed, forgotten):
        held.clear()
    del signature
    gc.collect()  # also for JAX, which lets go of NumPy's arrays then
