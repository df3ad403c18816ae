"""Data of other libraries: as arrays, and as batches. Libraries that are not installed are stood in for."""

import contextlib
import importlib
import itertools
import logging

import jax.numpy as jnp
import numpy as np
import pytest

from muster._errors import DatasetError, PositionError
from muster._keras import keras
from muster.data import Dataset, as_arrays, refuse_whole

for name in ("pandas", "polars", "datasets"):  # here, since they leave threads and variables behind
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
with contextlib.suppress(ImportError):
    importlib.import_module("tqdm").tqdm.monitor_interval = 0

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6)


class Frame:
    """What is used of a pandas DataFrame."""

    def __init__(self, columns):
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        self.columns, self.index = list(columns), range(6)

    def __getitem__(self, name):
        return self._columns[name]


class Tensor:
    """What is used of a PyTorch tensor that has a gradient."""

    def __init__(self, values):
        self._values = values

    def detach(self):
        return self

    def cpu(self):
        return self._values

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


def table(library):
    columns = {"a": np.arange(6), "b": np.arange(6) * 0.5, "name": np.array(["x", "y"] * 3, object)}
    if library == "stand-in":
        return Frame(columns)
    module = pytest.importorskip({"arrow": "pyarrow", "huggingface": "datasets"}.get(library, library))
    match library:
        case "pandas" | "polars":
            return module.DataFrame(columns)
        case "arrow":
            return module.table(columns)
        case _:
            return module.Dataset.from_dict(columns)


TABLES = ["stand-in", "pandas", "polars", "arrow", "huggingface"]


@pytest.mark.parametrize("library", TABLES)
def test_a_table_is_a_dict_of_its_columns(library):
    columns = as_arrays(table(library))
    assert list(columns) == ["a", "b", "name"]
    assert all(type(column) is np.ndarray for column in columns.values())
    assert columns["b"].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
    assert columns["name"].dtype.kind == "U"


@pytest.mark.parametrize("library", TABLES)
def test_a_table_with_one_of_its_columns_as_labels(library):
    whole = table(library)
    features, labels = as_arrays((whole, whole["a"]))
    assert list(features) == ["a", "b", "name"]
    assert labels.tolist() == list(range(6))


def test_structures_of_arrays_and_lists():
    data = {"a": [1, 2], "b": [[1.0], [2.0]], "c": jnp.ones(2), "d": Tensor(Y), "text": ["x", "y"]}
    arrays = as_arrays((data, [X, Y]))
    assert {name: column.shape for name, column in arrays[0].items()} == {
        "a": (2,),
        "b": (2, 1),
        "c": (2,),
        "d": (6,),
        "text": (2,),
    }
    assert arrays[0]["a"].dtype == np.int32
    assert arrays[0]["b"].dtype == np.float32
    assert arrays[1][0] is X


def test_columns_of_vectors_are_arrays():
    column = np.empty(2, object)
    column[:] = [np.ones(3), np.zeros(3)]
    assert as_arrays(Frame({"v": column}))["v"].shape == (2, 3)


BATCHES = [(X[:4], Y[:4]), (X[4:], Y[4:])]


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        return BATCHES[number]


class Endless(keras.utils.PyDataset):
    @property
    def num_batches(self):
        return None

    def __getitem__(self, number):
        return BATCHES[number % 2]


class Loader:
    """As a DataLoader: an iterable of lists, anew for each pass, with a length."""

    def __iter__(self):
        return iter([list(batch) for batch in BATCHES])

    def __len__(self):
        return 2


def grain_dataset():
    grain = pytest.importorskip("grain")
    return grain.MapDataset.source(list(zip(X, Y, strict=True))).batch(4)


def torch_loader():
    data = pytest.importorskip("torch").utils.data
    rows = data.TensorDataset(*map(__import__("torch").from_numpy, (X, Y)))
    return data.DataLoader(rows, batch_size=4)


LOADERS = {
    "list": lambda: BATCHES,
    "lists": lambda: [list(batch) for batch in BATCHES],
    "PyDataset": Sequence,
    "loader": Loader,
    "function": lambda: lambda: iter(BATCHES),
    "Grain MapDataset": grain_dataset,
    "Grain IterDataset": lambda: grain_dataset().to_iter_dataset(),
    "PyTorch": torch_loader,
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_is_read_again_and_at_a_position(kind):
    dataset = Dataset.from_loader(LOADERS[kind]())
    assert [[part.tolist() for part in batch] for batch in dataset] == [
        [part.tolist() for part in batch] for batch in BATCHES
    ]
    iterator = dataset.iterator()
    next(iterator)
    (batch,) = Dataset.from_loader(LOADERS[kind]()).iterator(iterator.position)
    assert batch[1].tolist() == [4, 5]
    assert dataset.element_spec[0].shape == (None, 2)


def hugging_face():
    return table("huggingface").with_format("numpy")


def test_rows_of_a_table_on_disk_come_as_they_are_needed():
    rows = Dataset.from_source(hugging_face())
    batches = list(rows.batch(4))
    assert [batch["b"].tolist() for batch in batches] == [[0, 0.5, 1, 1.5], [2, 2.5]]
    assert batches[0]["name"].tolist() == ["x", "y", "x", "y"]
    assert sorted(row["a"] for row in rows.shuffle(6, seed=1)) == list(range(6))


def test_what_is_streamed_is_read_anew_and_at_a_position():
    stream = hugging_face().to_iterable_dataset().with_format("numpy")
    dataset = Dataset.from_source(stream).map(lambda row: row["a"] * 2).batch(2)
    assert [batch.tolist() for batch in dataset] == [[0, 2], [4, 6], [8, 10]]
    iterator = dataset.iterator()
    next(iterator)
    assert next(dataset.iterator(iterator.position)).tolist() == [4, 6]
    assert dataset.element_spec.dtype.kind == "i"
    past = {**iterator.position, "elements": 7}
    with pytest.raises(PositionError, match="has only 3"):
        next(dataset.iterator(past))


def test_lengths():
    assert Dataset.from_loader(Loader()).cardinality() == 2
    assert len(Dataset.from_loader(Sequence())) == 2
    assert len(list(itertools.islice(Dataset.from_loader(Endless()), 5))) == 5


def test_a_generator_is_read_once():
    dataset = Dataset.from_loader(batch for batch in BATCHES)
    assert dataset.element_spec[1].dtype == Y.dtype
    assert len(list(dataset)) == 2
    with pytest.raises(DatasetError, match=r"can be read once, and was.*from_loader\(lambda"):
        next(iter(dataset))


def test_what_a_restart_does_is_said(caplog):
    iterator = Dataset.from_loader(Loader()).iterator()
    next(iterator)
    with caplog.at_level(logging.WARNING):
        next(Dataset.from_loader(Loader()).iterator(iterator.position))
    assert "Reading the first 1 batches of Loader again" in caplog.text


def stand_in(package, name, **methods):
    return type(name, (), {"__module__": f"{package}.inner", **methods})()


BY_NUMBER = {"__getitem__": lambda self, number: X[number], "__len__": lambda self: 6}


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (stand_in("polars", "LazyFrame", columns=["a"], __getitem__=None), r"data.collect\(\)"),
        (stand_in("pyarrow", "RecordBatchReader", __iter__=None), r"data.read_all\(\)"),
        (stand_in("datasets", "IterableDataset", __iter__=None), r"from_source\(data.with_format"),
        (type("DatasetDict", (dict,), {"__module__": "datasets.dict"})(train=1), r"data\[\"train\"\]"),
        (stand_in("torch", "Dataset", **BY_NUMBER), r"from_source\(data\)"),
        (stand_in("mine", "Rows", **BY_NUMBER), r"from_source\(data\)"),
        (stand_in("scipy", "csr_matrix"), "csr_matrix is neither"),
        (stand_in("scipy", "spmatrix"), r"data.toarray\(\)"),
        (lambda: [], r"from_loader\(data\)"),
        (object(), "neither an array, a table"),
    ],
)
def test_what_does_not_say_what_a_batch_is_is_refused_with_a_line(value, line):
    with pytest.raises(TypeError, match=line):
        as_arrays(value)


def test_a_loader_is_something_to_iterate_over():
    with pytest.raises(TypeError, match="needs an iterable of batches"):
        Dataset.from_loader(3)


def test_a_table_on_disk_is_refused_as_one_batch() -> None:
    whole = type("Dataset", (), {"__module__": "datasets.arrow_dataset"})()
    with pytest.raises(TypeError, match=r"from_source\(data.with_format\(\"numpy\"\)\)"):
        refuse_whole(whole)
    refuse_whole(Frame({"a": [1]}))
