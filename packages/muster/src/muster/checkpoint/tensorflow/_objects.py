"""Object-based checkpoints: read the object graph that maps attributes of objects to tensors.

Source: tensorflow/core/protobuf/trackable_object_graph.proto; ``_trackable_children``
(keras/engine/functional.py) for the names of a model's layers.
"""

import functools
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster._errors import CheckpointMismatchError
from muster._protobuf import message_class
from muster.checkpoint.objects import Variable
from muster.checkpoint.tensorflow._bundle import OBJECT_GRAPH
from muster.checkpoint.tensorflow._names import name_of
from muster.checkpoint.tensorflow._reader import TensorFlowCheckpoint
from muster.checkpoint.tensorflow._varints import FormatError

_VALUE = "VARIABLE_VALUE"
_LAYER = re.compile(r"layer_with_weights-([0-9]+)")
# The ends of the paths of what Keras 3 keeps for layers that draw random numbers, and stateful ones.
_STATES = ("seed_generator_state", "rnn_state")
# Lists of all of an optimizer's variables: Keras 3 has them in another order.
_OTHER_ORDER = {"_variables", "_index_dict", "variables", "non_trainable_variables"}
_MESSAGES = """
message Graph { repeated Node nodes = 1; }
message Node { repeated Child children = 1; repeated Attribute attributes = 2; }
message Child { int32 node_id = 1; string local_name = 2; }
message Attribute { string name = 1; string checkpoint_key = 3; }
"""


@dataclass(frozen=True)
class SavedObject:
    """An object when it was saved.

    Attributes:
        children: The numbers of the objects that it has, by the names under which it has them.
        key: The name of its value in the checkpoint; None for what is no variable.
    """

    children: Mapping[str, int]
    key: str | None


def parse_graph(data: bytes) -> list[SavedObject]:
    """Parse the graph of objects, whose first one is the root.

    Raises:
        FormatError: It is damaged.
    """
    from google.protobuf.message import DecodeError

    try:
        graph = _message().FromString(data)
    except DecodeError as exc:
        raise FormatError(f"its graph of objects is no message: {exc}") from exc
    nodes = []
    for node in graph.nodes:
        children = {child.local_name: child.node_id for child in node.children}
        if not all(0 <= number < len(graph.nodes) for number in children.values()):
            raise FormatError("its graph of objects names one that is not there")
        keys = [each.checkpoint_key for each in node.attributes if each.name == _VALUE]
        nodes.append(SavedObject(children, keys[0] if keys else None))
    return nodes


def find_variables(nodes: Sequence[SavedObject], root: object) -> list[tuple[Variable, str]]:
    """Return the variables that are reached from an object as from the first node, and their names there.

    Args:
        nodes: The graph of objects.
        root: The object that was saved, or objects by name.
    """
    found: dict[int, tuple[Variable, str]] = {}
    seen: set[tuple[int, int]] = set()
    waiting: deque[tuple[int, Any]] = deque([(0, root)] if nodes else [])
    while waiting:
        number, each = waiting.popleft()
        if (number, id(each)) in seen:
            continue
        seen.add((number, id(each)))
        node = nodes[number]
        if node.key is not None and hasattr(each, "assign"):
            found.setdefault(id(each), (each, node.key))
        for name, child in node.children.items():
            if (inner := _child(each, name)) is not None:
                waiting.append((child, inner))
    return list(found.values())


def restore_objects(prefix: str, root: object, variables: Iterable[Variable]) -> None:
    """Set variables to their values in a checkpoint of TensorFlow's: of objects, or of names.

    What the checkpoint has beyond them is left alone, such as an optimizer's state for a model alone.

    Args:
        prefix: The checkpoint.
        root: The object that was saved, or objects by name.
        variables: The variables that must be set; more of those that are reached from the root may be.

    Raises:
        CheckpointMismatchError: The checkpoint lacks a variable, or has another shape. Nothing was set.
        CheckpointError: The checkpoint cannot be read.
    """
    checkpoint, variables = TensorFlowCheckpoint(prefix), _of_keras_2(variables)
    if OBJECT_GRAPH in checkpoint.entries:
        pairs = _reached(checkpoint, root, variables)
    else:
        pairs = _named(checkpoint, variables)
    values: list[tuple[Variable, np.ndarray[Any, Any]]] = []
    for variable, key in pairs:
        value, shape = checkpoint.read(key), tuple(variable.shape)
        if value.shape != shape:
            raise CheckpointMismatchError(
                f"{prefix} is of another model: {key} has the shape {value.shape} there, and {variable.path} "
                f"has {shape}."
            )
        values.append((variable, value))
    for variable, value in values:
        variable.assign(value)


def _reached(
    checkpoint: TensorFlowCheckpoint, root: object, variables: Iterable[Variable]
) -> list[tuple[Variable, str]]:
    """Return the variables that are reached from an object, and their keys in an object-based checkpoint."""
    prefix = checkpoint.prefix
    try:
        nodes = parse_graph(checkpoint.read(OBJECT_GRAPH).item())
    except FormatError as exc:
        raise CheckpointMismatchError(f"{prefix} cannot be restored: {exc}.") from exc
    pairs = find_variables(nodes, root)
    reached = {id(variable) for variable, _ in pairs}
    if missing := [variable.path for variable in variables if id(variable) not in reached]:
        raise CheckpointMismatchError(
            f"{prefix} is of another model: it lacks {', '.join(missing)}. Build the model as it was when it "
            "was saved, with its layers in the same order or as attributes of the same names."
        )
    return pairs


def _named(checkpoint: TensorFlowCheckpoint, variables: Iterable[Variable]) -> list[tuple[Variable, str]]:
    """Return variables and their names, by which Estimators and Savers write checkpoints."""
    pairs = [(variable, name_of(variable)) for variable in variables]
    if missing := [name for _, name in pairs if name not in checkpoint.entries]:
        raise CheckpointMismatchError(
            f"{checkpoint.prefix} is a checkpoint of names, as Estimators and Savers write them, and lacks "
            f"{', '.join(missing)}. tf.train.list_variables lists the names that are there; "
            "TensorFlow 1's Saver({name: variable}).restore(None, path) restores by other names."
        )
    return pairs


def load_weights(model: Any, path: str) -> None:
    """Set a Keras model's weights to what ``save_weights`` of TensorFlow's Keras wrote, or a SavedModel has.

    Args:
        model: A built ``keras.Model``.
        path: The path that was given to ``save_weights``; or a SavedModel's ``variables/variables``.

    Raises:
        CheckpointMismatchError: The weights are of another model, or this one is not built. Nothing was set.
        CheckpointError: The checkpoint cannot be read.
    """
    if not model.weights:
        raise CheckpointMismatchError(
            f"The model {model.name} has no weights to set: build it first, as by calling it on a batch."
        )
    restore_objects(path, model, model.weights)


def _of_keras_2(variables: Iterable[Variable]) -> list[Variable]:
    """Return the variables that Keras 2 saves, too: its layers hold no state of their random numbers."""
    return [each for each in variables if not each.path.endswith(_STATES)]


def _child(each: Any, name: str) -> Any:
    """Return what an object has under a name that it had when it was saved; None for nothing of use."""
    if isinstance(each, Mapping):
        return each.get(name)
    if isinstance(each, list | tuple):
        return each[int(name)] if name.isdecimal() and int(name) < len(each) else None
    if match := _LAYER.fullmatch(name):
        layers = [layer for layer in getattr(each, "layers", ()) if _of_keras_2(layer.weights)]
        return layers[int(match[1])] if int(match[1]) < len(layers) else None
    if name in _OTHER_ORDER:
        return None
    found = getattr(each, name, None)
    useful = (
        isinstance(found, Mapping | list | tuple) or hasattr(found, "assign") or hasattr(found, "variables")
    )
    return found if useful else None


@functools.cache
def _message() -> Any:
    return message_class(_MESSAGES, "tensorflow.Graph")
