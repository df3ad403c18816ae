"""Data that people have, in `fit`, `evaluate` and `predict` under a strategy."""

import contextlib
import importlib
import re

import numpy as np
import pytest
from coordinated import strategy_of
from fit_cases import BATCH, ROWS, WEIGHTS, Batches, X, Y, build, built, same, values

from muster._errors import DatasetError
from muster._keras import keras
from muster.distribute import MirroredStrategy

for name in ("pandas", "polars", "datasets"):  # here, since they leave threads and variables behind
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
with contextlib.suppress(ImportError):
    importlib.import_module("tqdm").tqdm.monitor_interval = 0

pytestmark = pytest.mark.usefixtures("compiled_once")
NAMES = list("abcdef")


@pytest.fixture(scope="module")
def strategy():
    return MirroredStrategy(["/cpu:0", "/cpu:1"])


def fitted(strategy, *data, **arguments):
    model = build(strategy)
    model.fit(*data, epochs=2, shuffle=False, verbose=0, **arguments)
    return values(model), model


@pytest.fixture(scope="module")
def expected(strategy):
    return fitted(strategy, X, Y, batch_size=BATCH)[0]


def whole_table(library):
    """A table that has a column of labels beside the others."""
    module = pytest.importorskip({"arrow": "pyarrow", "huggingface": "datasets"}.get(library, library))
    columns = {name: X[:, i] for i, name in enumerate(NAMES)} | {"label": Y}
    match library:
        case "pandas" | "polars":
            return module.DataFrame(columns)
        case "arrow":
            return module.table(columns)
    return module.Dataset.from_dict(columns)


def table(library):
    whole = whole_table(library)
    match library:
        case "pandas" | "polars":
            return whole[NAMES], whole["label"]
        case "arrow":
            return whole.select(NAMES), whole["label"]
    return whole.select_columns(NAMES), whole["label"]


IN_MEMORY = {
    "lists": lambda: (X.tolist(), Y.tolist()),
    "pandas": lambda: table("pandas"),
    "polars": lambda: table("polars"),
    "Arrow": lambda: table("arrow"),
    "Hugging Face": lambda: table("huggingface"),
}


@pytest.mark.samples("pandas", "Arrow")
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_data_in_memory(strategy, expected, kind):
    data = IN_MEMORY[kind]()
    found, model = fitted(strategy, *data, batch_size=BATCH, validation_data=data)
    same(found, expected)
    assert model.evaluate(*data, verbose=0) == pytest.approx(model.evaluate(X, Y, verbose=0))
    np.testing.assert_allclose(
        model.predict(data[0], verbose=0), model.predict(X, verbose=0), rtol=1e-5, atol=1e-6
    )


def batches(*arrays):
    return [tuple(array[i : i + BATCH] for array in arrays) for i in range(0, ROWS, BATCH)]


class Loader:
    def __iter__(self):
        return iter([list(batch) for batch in batches(X, Y)])


@pytest.mark.samples("a loader")
@pytest.mark.parametrize("data", [batches(X, Y), Loader()], ids=["a list of batches", "a loader"])
def test_batches(strategy, expected, data):
    found, model = fitted(strategy, data, validation_data=data)
    same(found, expected)
    assert model.evaluate(data, verbose=0) == pytest.approx(model.evaluate(X, Y, batch_size=BATCH, verbose=0))


@pytest.mark.samples("pandas")
@pytest.mark.parametrize("kind", [*IN_MEMORY, "a list of batches", "a loader"])
def test_data_is_the_same_without_a_strategy(expected, kind):
    model = built("functional", "adam")
    if kind in IN_MEMORY:
        data, batch_size = IN_MEMORY[kind](), BATCH
    else:
        data, batch_size = ((Loader() if kind == "a loader" else batches(X, Y)),), None
    whole = data if len(data) > 1 else data[0]
    model.fit(*data, batch_size=batch_size, validation_data=whole, epochs=2, shuffle=False, verbose=0)
    same(values(model), expected)
    seen = model.evaluate(*data, batch_size=batch_size, verbose=0)
    assert seen == pytest.approx(model.evaluate(X, Y, batch_size=BATCH, verbose=0))
    found = model.predict(data[0], verbose=0)
    np.testing.assert_allclose(found, model.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


BY_WORKERS = {
    **IN_MEMORY,
    "a list of batches": lambda: (batches(X, Y),),
    "a loader": lambda: (Loader(),),
    "a PyDataset": lambda: (Batches(),),
}


@pytest.fixture(scope="module")
def on_servers(compiled_once):
    with strategy_of(workers=1, servers=1) as strategy:
        yield strategy


@pytest.mark.samples("pandas")
@pytest.mark.parametrize("kind", BY_WORKERS)
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_steps_of_workers_with_parameter_servers(on_servers, expected, kind):
    data = BY_WORKERS[kind]()
    size = {"batch_size": BATCH} if len(data) > 1 else {}
    whole = data if len(data) > 1 else data[0]
    found, model = fitted(on_servers, *data, **size, validation_data=whole)
    same(found, expected)
    seen = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    assert model.evaluate(*data, **size, verbose=0) == pytest.approx(seen)
    one = model.predict(X, verbose=0)
    np.testing.assert_allclose(model.predict(data[0], verbose=0), one, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_generator_and_columns_of_lists_with_parameter_servers(on_servers):
    one = built("functional", "adam")
    one.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0)
    for make in (lambda: iter(batches(X, Y)), lambda: (batch for batch in batches(X, Y))):
        model = build(on_servers)
        model.fit(make(), steps_per_epoch=ROWS // BATCH, shuffle=False, verbose=0)
        same(values(model), values(one))

    def by_name():
        keras.utils.set_random_seed(7)
        inputs = {name: keras.Input((1,), name=name) for name in "ab"}
        model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.concatenate([*inputs.values()])))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    one = by_name()
    with on_servers.scope():
        model = by_name()
    columns = {name: X[:, i : i + 1] for i, name in enumerate("ab")}
    one.fit(columns, Y, shuffle=False, verbose=0)
    model.fit(
        {name: column.tolist() for name, column in columns.items()}, Y.tolist(), shuffle=False, verbose=0
    )
    same(values(model), values(one))


def test_batches_with_weights_from_an_iterator(strategy):
    model, other = build(strategy), build(strategy)
    model.fit(map(tuple, batches(X, Y, WEIGHTS)), verbose=0)
    other.fit(X, Y, sample_weight=WEIGHTS.tolist(), batch_size=BATCH, shuffle=False, verbose=0)
    same(values(model), values(other))


def test_columns_go_to_the_inputs_that_have_their_names(strategy):
    arrow = pytest.importorskip("pyarrow")
    with strategy.scope():
        inputs = {name: keras.Input((1,), name=name) for name in ("a", "b")}
        model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.concatenate(list(inputs.values()))))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    model.fit(arrow.table(columns), Y, verbose=0)
    found = model.predict(arrow.table(columns), verbose=0)
    np.testing.assert_allclose(found, model.predict({name: columns[name] for name in "ab"}, verbose=0))


class Rows:
    """As a dataset of PyTorch."""

    def __len__(self):
        return ROWS

    def __getitem__(self, number):
        return X[number], Y[number]


@pytest.mark.parametrize("call", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("in_scope", [False, True])
@pytest.mark.parametrize(
    ("data", "line"),
    [(Rows(), r"Dataset.from_source\(data\)"), (lambda: batches(X, Y), r"Dataset.from_loader\(data\)")],
    ids=["rows", "a function"],
)
def test_what_has_no_batches_is_refused_with_the_line_that_makes_them(strategy, call, in_scope, data, line):
    model = build(strategy) if in_scope else built("functional", "adam")
    with pytest.raises(TypeError, match=line):
        getattr(model, call)(data, verbose=0)


ALONE = {
    "pandas": (lambda: whole_table("pandas"), 'x=data.drop(columns="label"), y=data["label"]'),
    "polars": (lambda: whole_table("polars"), 'x=data.drop("label"), y=data["label"]'),
    "Arrow": (lambda: whole_table("arrow"), 'x=data.drop_columns("label"), y=data["label"]'),
    "Hugging Face": (lambda: whole_table("huggingface"), 'x=data.remove_columns("label"), y=data["label"]'),
    "a pair": (lambda: (X, Y), "x=data[0], y=data[1]"),
}


@pytest.mark.samples("True-pandas", "False-Arrow")
@pytest.mark.parametrize("kind", ALONE)
@pytest.mark.parametrize("in_scope", [False, True])
def test_a_table_without_labels_is_refused_with_the_line_that_gives_them(strategy, expected, kind, in_scope):
    make, line = ALONE[kind]
    data = make()
    model = build(strategy) if in_scope else built("functional", "adam")
    for call in (model.fit, model.evaluate):
        with pytest.raises(DatasetError, match=re.escape(line)):
            call(data, verbose=0)
    arguments = eval(f"dict({line})", {"data": data})
    model.fit(**arguments, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    same(values(model), expected)


@pytest.mark.parametrize("in_scope", [False, True])
def test_a_table_as_validation_data_is_refused_with_the_line_that_gives_labels(strategy, in_scope):
    model = build(strategy) if in_scope else built("functional", "adam")
    line = r'validation_data=\(data.drop\(columns="label"\), data\["label"\]\)'
    with pytest.raises(DatasetError, match=line):
        model.fit(X, Y, validation_data=whole_table("pandas"), verbose=0)


class Reconstruction(keras.Model):
    """Takes its labels from its inputs."""

    def __init__(self):
        super().__init__()
        self.out = keras.layers.Dense(len(NAMES))

    def call(self, x):
        return self.out(x)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, x, y_pred, sample_weight, training)


@pytest.mark.parametrize("in_scope", [False, True])
def test_a_model_that_needs_no_labels_is_trained_on_a_table_alone(strategy, in_scope):
    with strategy.scope() if in_scope else contextlib.nullcontext():
        model = Reconstruction()
        model.compile("sgd", "mse")
    table = whole_table("pandas")[NAMES]
    history = model.fit(table, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_a_lone_table_on_disk_is_read_by_batches(strategy, monkeypatch):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({name: X[:, i] for i, name in enumerate(NAMES)})
    sizes = []
    read = datasets.Dataset.__getitems__
    monkeypatch.setattr(
        datasets.Dataset, "__getitems__", lambda self, keys: sizes.append(len(keys)) or read(self, keys)
    )
    for scope in (strategy, None):
        model = build(strategy) if scope is not None else keras.Sequential([keras.layers.Dense(1)])
        wanted = model.predict(X, verbose=0)
        np.testing.assert_allclose(model.predict(rows, batch_size=BATCH, verbose=0), wanted, rtol=1e-5)
    assert sum(sizes) >= 2 * ROWS
    assert max(sizes) <= BATCH
    vectors = datasets.Dataset.from_dict({"x": X}).with_format("numpy")

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            self.add_loss(keras.ops.mean(self.dense(x) ** 2))
            return x

    model = Own()
    model.compile("sgd")
    losses = model.fit(vectors, epochs=3, batch_size=BATCH, verbose=0).history["loss"]
    assert losses == sorted(losses, reverse=True)
