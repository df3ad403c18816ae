"""Look up a name of TensorFlow: its equivalent in muster or a replacement, and the differences."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import muster_tensorflow as tf
import muster_tensorflow.datasets as tfds
from muster_tensorflow import tensorboard
from muster_tensorflow.names._names import PACKAGE, what_instead
from muster_tensorflow.port._differences import DIFFERENCES
from muster_tensorflow.port._program import Use

DATASETS = "muster_tensorflow.datasets"
_PLUGINS = "muster_tensorflow.tensorboard.plugins"
_ROOTS = {"tfds": tfds, "tb": tensorboard.plugins}

# Packages that programs import beside TensorFlow, and what to do about them.
OTHERS = {
    "tensorflow_addons": "It needs TensorFlow: look for the layer, loss or optimizer in keras.",
    "tensorflow_hub": "It needs TensorFlow: take a model of keras.applications or of KerasHub.",
    "tensorflow_io": "It needs TensorFlow: read files by muster.data or Python's libraries.",
    "tensorflow_model_analysis": "It needs TensorFlow: use metrics in evaluate.",
    "tensorflow_probability": "It runs on JAX: import tensorflow_probability.substrates.jax as tfp.",
    "tensorflow_text": "It needs TensorFlow: work on text in Python, in Dataset.map.",
    "tensorflow_transform": "It needs TensorFlow: compute in Dataset.map, or by feature columns.",
    "tf_keras": "It is Keras 2 and needs TensorFlow: use keras.",
    "tf_slim": "It needs TensorFlow: use Keras' layers.",
}

# What TensorFlow 2 has in tf.train too; all else there is TensorFlow 1's.
_TRAIN_2 = {
    *(
        "BytesList",
        "Checkpoint",
        "CheckpointManager",
        "CheckpointOptions",
        "ClusterSpec",
        "Example",
        "Feature",
    ),
    *("Features", "FloatList", "Int64List", "checkpoints_iterator", "get_checkpoint_state"),
    *("latest_checkpoint", "list_variables", "load_checkpoint", "load_variable"),
}
# Modules that TensorFlow 2 does not have, though its programs find them here.
_MODULES_OF_1 = ("tf.contrib.", "tf.estimator.inputs.")


@dataclass(frozen=True)
class Answer:
    """The answer for one name.

    Attributes:
        instead: What to use; None if muster has the name.
        differs: How it differs from TensorFlow's; None if it does not.
        about: The name that ``differs`` is about, which may be that of the module or class.
    """

    instead: str | None = None
    differs: str | None = None
    about: str = ""


def look_up(use: Use, one: bool) -> Answer:
    """Look up a name in the modules that programs import.

    Args:
        use: The name.
        one: Whether the program's ``tf`` is ``tf.compat.v1``.
    """
    path = _of(use.path, one)
    if use.is_module and module_of(use.path, one) is None:
        return Answer(instead=what_instead(path))
    value: Any = _ROOTS.get(path.partition(".")[0], tf)
    for part in path.split(".")[1:]:
        if not isinstance(value, ModuleType | type | np.dtype):
            break
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            return Answer(instead=what_instead(path))
    name = path.replace(".compat.v1.", ".", 1)
    while "." in name:
        if name in DIFFERENCES:
            return Answer(differs=DIFFERENCES[name], about=name)
        name = name.rpartition(".")[0]
    return Answer()


def module_of(path: str, one: bool) -> str | None:
    """Return the name by which a module is imported; None if there is none.

    Args:
        path: Its name in programs, such as ``tf.keras.layers``.
        one: Whether the program's ``tf`` is ``tf.compat.v1``.
    """
    root, _, rest = path.partition(".")
    if root == "tfds":
        return None if rest else DATASETS
    if root == "tb":
        return f"{_PLUGINS}.{rest}" if f"{_PLUGINS}.{rest}" in sys.modules else None
    rest = rest and f".{rest}"
    both = f"{PACKAGE}{rest}", f"{PACKAGE}.compat.v1{rest}"
    two, first = (sys.modules.get(each) for each in both)
    if one and not rest.startswith(".compat") and first is not two:
        return both[1] if first is not None else None
    return both[0] if two is not None else None


def is_namespace(path: str) -> bool:
    """Return whether a name is a module, in TensorFlow 1 or 2."""
    return any(module_of(path, one) is not None for one in (False, True))


def says_which(uses: Iterable[Use]) -> bool | None:
    """Return whether programs that import ``tensorflow`` are for TensorFlow 1; None if no name says so.

    They are if more of their names are there, or as many, and they use names of ``tf.train`` or of other
    modules that TensorFlow 2 does not have.
    """
    names = {use for use in uses if use.path.startswith("tf.")}
    lacking = [sum(look_up(use, one).instead is not None for use in names) for one in (False, True)]
    if lacking[0] != lacking[1]:
        return lacking[1] < lacking[0]
    trains = {use.path.split(".")[2] for use in names if use.path.startswith("tf.train.")}
    older = bool(trains - _TRAIN_2) or any(use.path.startswith(_MODULES_OF_1) for use in names)
    return True if older else None


def _of(path: str, one: bool) -> str:
    return path.replace("tf.", "tf.compat.v1.", 1) if one and not path.startswith("tf.compat.") else path
