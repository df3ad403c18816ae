"""``tf.train.load_checkpoint`` and its kind, for checkpoints that TensorFlow wrote and for muster's.

Source: tensorflow/python/training/checkpoint_utils.py, py_checkpoint_reader.py.
"""

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from muster.checkpoint import VariableInfo, export_of, read_checkpoint, read_metadata
from muster.checkpoint.tensorflow import (
    STRING,
    TensorFlowCheckpoint,
    find_checkpoint,
    is_tensorflow_checkpoint,
    list_either,
    read_either,
)
from muster.extend import dtype_named, local_path
from muster_tensorflow.programs.v2.checkpoints._named_checkpoints import latest_checkpoint

Each = TypeVar("Each")

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class ByName(dict[str, Each]):
    """Maps names of variables, TensorFlow's too, to what there is of each.

    Args:
        found: What there is, by name.
        names: The name of each variable, by what TensorFlow would have called it.
    """

    def __init__(self, found: Mapping[str, Each], names: Mapping[str, str]) -> None:
        super().__init__(found)
        self._names = names

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._names

    def __missing__(self, name: str) -> Each:
        if name not in self._names:
            raise KeyError(name)
        return self[self._names[name]]


class CheckpointReader:
    """Reads the variables of a checkpoint.

    Those that a `tf.train.Checkpoint` found by attributes, dicts and lists have TensorFlow's names, too.

    Args:
        filename: The checkpoint: the prefix of TensorFlow's, or the directory of muster's, or of a model that
            muster has exported.

    Raises:
        CheckpointError: There is none, or it cannot be read.

    Source: ``CheckpointReader`` (tensorflow/python/training/py_checkpoint_reader.py).
    """

    def __init__(self, filename: str | bytes | os.PathLike[str]) -> None:
        self._path = local_path(filename)
        self._variables: Mapping[str, VariableInfo]
        self._read: Callable[[str], np.ndarray[Any, Any]]
        self._names: Mapping[str, str] = {}
        if (export := export_of(self._path)) is not None:
            self._variables = list_either(export)
            read = cache(partial(read_either, export, mapped=True))
            self._read = lambda name: read().variables[name].copy()
        elif os.path.isdir(self._path) and not is_tensorflow_checkpoint(self._path):
            self._variables = list_either(self._path)
            paths = read_metadata(self._path).get("paths", {})
            self._names = {_key_of(path): name for name, path in paths.items()}
            values = cache(partial(read_checkpoint, self._path, mapped=True))
            self._read = lambda name: values().variables[name].copy()
        else:
            checkpoint = TensorFlowCheckpoint(self._path)
            self._variables = checkpoint.variables
            self._read = checkpoint.read

    def has_tensor(self, name: str) -> bool:
        """Return whether there is a variable of this name."""
        return name in self._by_name(self._variables)

    def get_tensor(self, name: str) -> Any:
        """Return the value of a variable: an array, a NumPy scalar, or bytes; strings as arrays of bytes.

        Raises:
            KeyError: There is no such variable.
            DamagedCheckpointError: Its bytes are missing, or have changed.
        """
        if not self.has_tensor(name):
            raise KeyError(f"Key {name} not found in checkpoint {self._path}.")
        return self._read(self._names.get(name, name))[()]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shapes of all variables by name."""
        return self._by_name({name: [*info.shape] for name, info in self._variables.items()})

    def get_variable_to_dtype_map(self) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of all variables by name."""
        dtypes = {
            name: np.dtype(str) if info.dtype == STRING else dtype_named(info.dtype)
            for name, info in self._variables.items()
        }
        return self._by_name(dtypes)

    def _by_name(self, found: Mapping[str, Each]) -> ByName[Each]:
        return ByName(found, self._names)


def _key_of(path: str) -> str:
    """Return how TensorFlow calls the variable of an object, which has the names of attributes on the way.

    Source: tensorflow/python/checkpoint/saveable_compat.py, trackable_utils.py, ``object_path_to_string``.
    """
    names = path.removeprefix("root.").split(".")
    return "/".join(name.replace("/", ".S") for name in names) + _VALUE


def load_checkpoint(ckpt_dir_or_file: str | bytes | os.PathLike[str]) -> CheckpointReader:
    """Return a reader of a checkpoint.

    Args:
        ckpt_dir_or_file: The checkpoint, or a directory, whose newest is taken, or the folder of an exported
            model.

    Raises:
        ValueError: The directory has none.
        CheckpointError: There is no such checkpoint, or it cannot be read.
    """
    found = find_checkpoint(ckpt_dir_or_file)
    if found is None:
        found = latest_checkpoint(ckpt_dir_or_file)  # under a name of the program's own
    if found is None and os.path.isdir(ckpt_dir_or_file):
        raise ValueError(
            "Couldn't find 'checkpoint' file or checkpoints in given directory "
            f"{local_path(ckpt_dir_or_file)}"
        )
    return CheckpointReader(ckpt_dir_or_file if found is None else found)


def load_variable(ckpt_dir_or_file: str | bytes | os.PathLike[str], name: str) -> Any:
    """Return the value of a variable in a checkpoint; raises as `load_checkpoint` and ``get_tensor`` do.

    Args:
        ckpt_dir_or_file: The checkpoint, or a directory, whose newest is taken.
        name: The name of the variable; what follows a colon, as in ``w:0``, is left out.
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.partition(":")[0])


def list_variables(ckpt_dir_or_file: str | bytes | os.PathLike[str]) -> list[tuple[str, list[int]]]:
    """Return the names and shapes of a checkpoint's variables, sorted; raises as `load_checkpoint` does."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())
