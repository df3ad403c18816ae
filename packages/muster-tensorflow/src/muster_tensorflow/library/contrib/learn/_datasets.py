"""``tf.contrib.learn.datasets``: tables in files of comma-separated values, and MNIST.

Source: tensorflow/contrib/learn/python/learn/datasets/base.py and __init__.py of TensorFlow 1.15.
"""

import csv
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from muster.extend import local_path
from muster_tensorflow.programs.v1.mnist_input import read_data_sets

Array = np.ndarray[Any, Any]


class Dataset(NamedTuple):
    """Rows of features, ``data``, and one number of each, ``target``."""

    data: Array
    target: Array


class Datasets(NamedTuple):
    """The parts of a dataset."""

    train: Any
    validation: Any
    test: Any


def load_csv_with_header(
    filename: str | os.PathLike[str], target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """Read a table whose first line begins with the numbers of its rows and of its features.

    Args:
        filename: The file.
        target_dtype: The dtype of the targets.
        features_dtype: The dtype of the features.
        target_column: Which column the targets are in.
    """
    with open(local_path(filename), newline="") as file:
        first, *rows = csv.reader(file)
    count, width = int(first[0]), int(first[1])
    read = _split(rows[:count], target_dtype, features_dtype, target_column)
    return Dataset(read.data.reshape(count, width), read.target)


def load_csv_without_header(
    filename: str | os.PathLike[str], target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """Read a table all of whose lines are rows; arguments as for `load_csv_with_header`."""
    with open(local_path(filename), newline="") as file:
        return _split(list(csv.reader(file)), target_dtype, features_dtype, target_column)


def _split(rows: list[list[str]], target_dtype: Any, features_dtype: Any, target_column: int) -> Dataset:
    targets = [row.pop(target_column) for row in rows]
    return Dataset(np.asarray(rows).astype(features_dtype), np.asarray(targets).astype(target_dtype))


def load_mnist(train_dir: str = "MNIST-data") -> Any:
    """Read MNIST, as ``read_data_sets`` does."""
    return read_data_sets(train_dir)


DATASETS: dict[str, Callable[..., Any]] = {"mnist": load_mnist}


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """Return a dataset by name.

    Raises:
        ValueError: There is none.
    """
    if name not in DATASETS:
        raise ValueError(
            f"There is no dataset {name!r} here, only {sorted(DATASETS)}: tf.keras.datasets, "
            "tensorflow_datasets and sklearn.datasets have others."
        )
    return DATASETS[name]()
