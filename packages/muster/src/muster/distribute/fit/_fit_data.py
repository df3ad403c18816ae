"""Data for ``fit``, ``evaluate`` and ``predict`` that Keras does not know."""

from collections.abc import Iterator, Mapping
from types import GeneratorType
from typing import Any

import jax
import numpy as np

from muster._errors import DatasetError
from muster._keras import keras
from muster.data import (
    Dataset,
    RaggedTensor,
    SparseTensor,
    as_arrays,
    column_names,
    dataset_of_batches,
    is_kind,
    parts_with_labels,
    refuse,
)

NO_LABELS = "The data has no labels"
_COMPUTE_LOSS = ("train_step", "test_step", "compute_loss")


def adapt(arguments: dict[str, Any], model: Any, datasets: tuple[type, ...], *, method: str) -> None:
    """Replace, in the arguments of a call, data that Keras does not know by arrays or datasets.

    Args:
        arguments: Those of the call, which are changed.
        model: Its inputs have names, perhaps, which columns of tables go to.
        datasets: The types of datasets that stay as they are.
        method: The name of the method: ``predict`` needs no labels, and ``fit`` shuffles.

    Raises:
        DatasetError: Some data has no labels, which the loss needs; the message says what to write.
        TypeError: Some data does not say what a batch is; the message says what to write.
    """
    x, validation = arguments.get("x"), arguments.get("validation_data")
    trains_or_tests = method != "predict"
    if not isinstance(x, datasets):
        alone = arguments.get("y") is None and arguments.get("sample_weight") is None
        batches = _dataset(x) if alone else None
        if batches is not None:
            arguments["x"] = batches
        else:
            if alone and trains_or_tests:
                _require_labels(x, model, "x={}, y={}")
            if alone and is_kind(x, "datasets", "Dataset"):
                shuffles = method == "fit" and arguments.get("shuffle", True)
                arguments["x"] = _streamed(x, model, arguments.pop("batch_size", None) or 32, shuffles)
            else:
                for name in ("x", "y", "sample_weight"):
                    if arguments.get(name) is not None:
                        arguments[name] = _arrays(arguments[name], model if name == "x" else None)
    if validation is None or isinstance(validation, datasets):
        return
    batches = _dataset(validation)
    if batches is not None:
        arguments["validation_data"] = batches
    elif isinstance(validation, tuple | list):
        inputs, *others = validation
        arguments["validation_data"] = (_arrays(inputs, model), *(_arrays(each, None) for each in others))
    else:
        _require_labels(validation, model, "validation_data=({}, {})")
        arguments["validation_data"] = _arrays(validation, model)


def batches_of(dataset: Dataset) -> Iterator[Any]:
    """Return a dataset's batches of NumPy arrays as Keras takes them of a generator: each in a tuple."""
    for batch in dataset:
        arrays = jax.tree.map(np.asarray, batch)
        yield arrays if isinstance(arrays, tuple) else (arrays,)


def needs_labels(model: Any) -> bool:
    """Return whether a model was compiled with a loss that labels are given to as they come with the data."""
    overrides = (getattr(type(model), each) is not getattr(keras.Model, each) for each in _COMPUTE_LOSS)
    return getattr(model, "loss", None) is not None and not any(overrides)


def _require_labels(data: Any, model: Any, arguments: str) -> None:
    """Raise the error that says what to write, if the loss needs labels beside a table, or a pair.

    Raises:
        DatasetError: It is.
    """
    refuse(data)
    names = column_names(data)
    if names is not None:
        kind, parts = f"{type(data).__name__} of columns {names}", parts_with_labels(data, names)
    elif isinstance(data, tuple) and len(data) == 2 and not _input_names(model):
        kind, parts = "tuple of two", ("data[0]", "data[1]")
    else:
        return
    if parts is not None and needs_labels(model):
        raise DatasetError(
            f"{NO_LABELS} beside this {kind}, and the loss {model.loss!r} needs them. "
            f"Of this data write: {arguments.format(*parts)}"
        )


def _dataset(data: Any) -> Dataset | None:
    """Return a dataset of batches for a loader that Keras does not know; None for other data."""
    if _is_known(data):
        return None
    return dataset_of_batches(data)


def _is_known(data: Any) -> bool:
    """Return whether data is a loader that Keras has an adapter for."""
    return (
        isinstance(data, GeneratorType | keras.utils.PyDataset)
        or is_kind(data, "torch", "DataLoader")
        or is_kind(data, "grain", "MapDataset", "IterDataset", "DataLoader")
        or is_kind(data, "tensorflow", "DatasetV2")
    )


def _arrays(data: Any, model: Any) -> Any:
    """Return data in memory with Keras' arrays: what Keras takes as it is, or NumPy arrays."""
    if data is None or _is_known(data) or is_kind(data, "scipy", "spmatrix", "sparray"):
        return data
    if isinstance(data, SparseTensor):
        return np.asarray(data.to_dense())
    if isinstance(data, RaggedTensor):
        raise TypeError(
            "Models take arrays, and this is a ragged tensor: make its rows equally long by to_tensor()."
        )
    refuse(data)
    names = column_names(data)
    if names is not None:
        return _table(data, [str(name) for name in names], model)
    if isinstance(data, Mapping):
        return {key: _arrays(value, None) for key, value in data.items()}
    if isinstance(data, tuple | list) and isinstance(as_arrays(data), tuple):
        return type(data)(_arrays(item, None) for item in data)
    if isinstance(data, list) or is_kind(data, "datasets", "Column"):
        return as_arrays(data)
    if hasattr(data, "__array__") and not hasattr(data, "shape"):
        return as_arrays(data)  # such as a column of an Arrow table
    return data


def _table(table: Any, names: list[str], model: Any) -> Any:
    """Return a table as the model's inputs: by their names if columns have them, else in one array.

    Args:
        table: A table.
        names: The names of its columns.
        model: The model; None for labels and parts of a structure.
    """
    wanted = _input_names(model)
    if wanted and set(wanted) <= set(names):
        columns = as_arrays(table)
        return {name: columns[name] for name in wanted}
    if hasattr(table, "__array__"):
        return table  # Keras turns it into one array, of shape (rows, columns)
    columns = as_arrays(table)
    if len(columns) > 1 and all(column.ndim == 1 for column in columns.values()):
        return np.column_stack(list(columns.values()))
    return columns if len(columns) > 1 else next(iter(columns.values()))


def _streamed(data: Any, model: Any, batch_size: int, shuffles: bool) -> Dataset:
    """Return batches of a Dataset of Hugging Face as the model's inputs, read as they are needed."""
    names = [str(name) for name in data.column_names]
    wanted = _input_names(model)
    if wanted and set(wanted) <= set(names):
        data, names = data.select_columns(wanted), wanted
    data = data.with_format("numpy")
    rows = Dataset.from_source(data)
    batches = (rows.shuffle(len(data)) if shuffles else rows).batch(batch_size)
    if wanted:
        return batches
    if len(names) == 1:
        return batches.map(lambda columns: columns[names[0]])
    if all(np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf" for value in data[0].values()):
        return batches.map(
            lambda columns: keras.ops.stack(
                [keras.ops.cast(columns[name], keras.config.floatx()) for name in names], axis=-1
            )
        )
    return batches


def _input_names(model: Any) -> list[str]:
    """Return the names of a model's inputs, if it takes a dict of them or several."""
    inputs = getattr(model, "input", None) if getattr(model, "built", False) else None
    if isinstance(inputs, dict):
        return list(inputs)
    if isinstance(inputs, list | tuple) and len(inputs) > 1:
        return [each.name for each in inputs]
    return []
