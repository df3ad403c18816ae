"""Data that people have, in `fit`, `evaluate` and `predict` under a strategy."""

import contextlib
import importlib

import numpy as np
import pytest
from fit_cases import BATCH, ROWS, WEIGHTS, X, Y, build, same, values

from muster._keras import keras
from muster.distribute import MirroredStrategy

for name in ("pandas", "polars", "datasets"):  # here, since they leave threads and variables behind
    with contextlib.suppress(ImportError):
        importlib.import_module(name)

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


def table(library):
    module = pytest.importorskip({"arrow": "pyarrow", "huggingface": "datasets"}.get(library, library))
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    match library:
        case "pandas" | "polars":
            return module.DataFrame(columns), module.Series(Y)
        case "arrow":
            return module.table(columns), module.chunked_array([Y])
    whole = module.Dataset.from_dict({**columns, "label": Y})
    return whole.select_columns(NAMES), whole["label"]


IN_MEMORY = {
    "lists": lambda: (X.tolist(), Y.tolist()),
    "pandas": lambda: table("pandas"),
    "polars": lambda: table("polars"),
    "Arrow": lambda: table("arrow"),
    "Hugging Face": lambda: table("huggingface"),
}


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


@pytest.mark.parametrize("data", [batches(X, Y), Loader()], ids=["a list of batches", "a loader"])
def test_batches(strategy, expected, data):
    found, model = fitted(strategy, data, validation_data=data)
    same(found, expected)
    assert model.evaluate(data, verbose=0) == pytest.approx(model.evaluate(X, Y, batch_size=BATCH, verbose=0))


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
def test_rows_are_refused_with_the_line_that_makes_batches_of_them(strategy, call):
    with pytest.raises(TypeError, match=r"Dataset.from_source\(data\)"):
        getattr(build(strategy), call)(Rows(), verbose=0)
