"""What input functions return that is no Dataset: tables, lists, loaders and generators of batches."""

import contextlib
import importlib
import logging

import pytest
from linear import COUNT, FEATURES, LABELS, estimator
from local_servers import servers

from muster._keras import keras
from muster.estimator import (
    EvalSpec,
    LinearRegressor,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    train_and_evaluate,
)
from muster.feature_column import numeric_column
from noted_losses import Losses

for name in ("pandas", "polars"):  # here, since they leave variables behind
    with contextlib.suppress(ImportError):
        importlib.import_module(name)

pytestmark = pytest.mark.usefixtures("compiled_once")

BATCHES = [(FEATURES[i : i + 8], LABELS[i : i + 8]) for i in range(0, COUNT, 8)]


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return len(BATCHES)

    def __getitem__(self, number):
        return BATCHES[number]


def grain_loader():
    grain = pytest.importorskip("grain")
    return grain.MapDataset.source(list(zip(FEATURES, LABELS, strict=True))).batch(8)


def torch_loader():
    torch = pytest.importorskip("torch")
    rows = torch.utils.data.TensorDataset(torch.from_numpy(FEATURES), torch.from_numpy(LABELS))
    return torch.utils.data.DataLoader(rows, batch_size=8)


LOADERS = {
    "a generator": lambda: (batch for batch in BATCHES),
    "a list of batches": lambda: BATCHES,
    "lists": lambda: map(list, BATCHES),
    "a PyDataset": Sequence,
    "Grain": grain_loader,
    "PyTorch": torch_loader,
}


class StopAfter(SessionRunHook):
    def __init__(self, runs):
        self.runs = runs

    def after_run(self, run_context, run_values):
        self.runs -= 1
        if self.runs == 0:
            raise InterruptedError("as a crash")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    losses = Losses()
    trained = estimator(tmp_path_factory.mktemp("whole"))
    trained.train(lambda: BATCHES, hooks=[losses])
    return losses.by_step, trained.evaluate(lambda: BATCHES)


@pytest.mark.samples("a generator", "a PyDataset", "a list of batches")
@pytest.mark.parametrize("kind", LOADERS)
def test_training_on_a_loader_is_one_pass_and_goes_on_at_the_next_batch(tmp_path, expected, kind, caplog):
    losses = Losses()
    with pytest.raises(InterruptedError):
        estimator(tmp_path, save_checkpoints_steps=3).train(LOADERS[kind], hooks=[losses, StopAfter(5)])
    again = estimator(tmp_path)
    with caplog.at_level(logging.WARNING):
        again.train(LOADERS[kind], hooks=[losses])
    assert losses.by_step == expected[0]
    assert again.evaluate(LOADERS[kind]) == pytest.approx(expected[1])
    assert len(list(again.predict(LOADERS[kind]))) == COUNT
    numbered = kind in ("a list of batches", "a PyDataset")
    assert ("batches of" in caplog.text and "again" in caplog.text) is not numbered


def columns():
    return {"a": FEATURES[:, 0], "b": FEATURES[:, 1]}


def frame(library):
    module = pytest.importorskip({"arrow": "pyarrow"}.get(library, library))
    table = (module.table if library == "arrow" else module.DataFrame)({**columns(), "y": LABELS[:, 0]})
    return table, table["y"]


IN_MEMORY = {
    "arrays": lambda: (columns(), LABELS[:, 0]),
    "a list of two": lambda: [columns(), LABELS[:, 0]],
    "lists": lambda: ({name: values.tolist() for name, values in columns().items()}, LABELS[:, 0].tolist()),
    "pandas": lambda: frame("pandas"),
    "polars": lambda: frame("polars"),
    "Arrow": lambda: frame("arrow"),
}


@pytest.mark.samples("arrays", "Arrow", "pandas")
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_data_in_memory_is_one_batch(tmp_path, kind):
    losses = Losses()
    model = LinearRegressor([numeric_column("a"), numeric_column("b")], model_dir=tmp_path, optimizer="SGD")
    model.train(IN_MEMORY[kind], steps=20, hooks=[losses])
    assert len(losses.by_step) == 20
    assert losses.by_step[20] < losses.by_step[1]
    assert model.evaluate(IN_MEMORY[kind])["label/mean"] == pytest.approx(LABELS.mean(), rel=1e-4)
    assert len(list(model.predict(lambda: IN_MEMORY[kind]()[0]))) == COUNT


@pytest.mark.samples("a generator", "a PyDataset")
@pytest.mark.parametrize("kind", LOADERS)
def test_batches_of_loaders_with_a_parameter_server(tmp_path, expected, kind):
    with servers(1) as strategy:
        trained = estimator(tmp_path, train_distribute=strategy)
        metrics, _ = train_and_evaluate(
            trained, TrainSpec(LOADERS[kind], max_steps=len(BATCHES)), EvalSpec(LOADERS[kind], steps=None)
        )
    assert metrics == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.samples("arrays", "Arrow")
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_data_in_memory_with_a_parameter_server(tmp_path, kind):
    columns = [numeric_column("a"), numeric_column("b")]
    with servers(1) as strategy:
        config = RunConfig(tmp_path / "served", train_distribute=strategy)
        served = LinearRegressor(columns, optimizer="SGD", config=config)
        specs = TrainSpec(IN_MEMORY[kind], max_steps=5), EvalSpec(IN_MEMORY[kind], steps=None)
        metrics, _ = train_and_evaluate(served, *specs)
    alone = LinearRegressor(columns, tmp_path / "alone", optimizer="SGD").train(IN_MEMORY[kind], max_steps=5)
    assert metrics == pytest.approx(alone.evaluate(IN_MEMORY[kind]), rel=1e-4)


def test_a_list_of_several_inputs_beside_labels(tmp_path):
    def input_fn():
        return [FEATURES[:, :1], FEATURES[:, 1:]], LABELS

    def model_fn(features, labels, mode):
        from linear import model_fn as model

        return model(keras.ops.concatenate(features, axis=1), labels, mode)

    losses = Losses()
    estimator(tmp_path, model_fn).train(input_fn, steps=2, hooks=[losses])
    assert len(losses.by_step) == 2


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda: "a.csv", "must return a Dataset.*a.csv"),
        (lambda: object(), "must return a Dataset.*neither an array"),
        (lambda: type("Rows", (), {"__len__": None, "__getitem__": None})(), r"Dataset.from_source\(data\)"),
    ],
)
def test_anything_else_is_refused(tmp_path, returned, message):
    with pytest.raises(TypeError, match=message):
        estimator(tmp_path).train(returned, steps=1)
