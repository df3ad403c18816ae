"""Match the tensors of a TensorFlow checkpoint to the variables of a Keras model and its optimizer.

Source of TensorFlow's names: ``Optimizer._get_or_make_slot`` (tensorflow/python/training/optimizer.py) and
slot_creator.py for those of version 1; ``OptimizerV2.add_slot`` (keras/optimizers/legacy/optimizer_v2.py).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.checkpoint.tensorflow._bundle import Entry

# A slot of version 1 is <variable>/<optimizer>, then <variable>/<optimizer>_1 and so on. What each is in
# Keras 3:
_NUMBERED = {
    "adam": ("momentum", "velocity"),
    "adagrad": ("accumulator",),
    "adadelta": ("accumulated_grad", "accumulated_delta_var"),
    "ftrl": ("accumulator", "linear"),
    "momentum": ("momentum",),
    "rmsprop": ("velocity", "momentum"),
}
_CENTERED_RMSPROP = ("velocity", "average_gradient", "momentum")
# A slot of Keras 2 is <optimizer>/<variable>/<slot>, after "training/" in an Estimator.
_NAMED = {
    "m": "momentum",
    "v": "velocity",
    "vhat": "velocity_hat",
    "rms": "velocity",
    "mg": "average_gradient",
    "momentum": "momentum",
    "accumulator": "accumulator",
    "linear": "linear",
    "accum_grad": "accumulated_grad",
    "accum_var": "accumulated_delta_var",
}
# Which part of a divided variable a slot of version 1 belongs to.
_PART = re.compile(r"(.+)/(?:part|t)_[0-9]+(/[^/]+)")
_KERAS = re.compile(rf"(?:training/)?([^/]+)/(.+)/({'|'.join(_NAMED)})")
_SCALAR = re.compile(r"(?:training/)?([^/]+)/(iter|learning_rate)")
_SCALARS = {"iter": "iteration", "learning_rate": "learning_rate"}
_NUMBER = re.compile(r"_[0-9]+$")
GLOBAL_STEP = "global_step"


def name_of(variable: Any) -> str:
    """Return the name by which TensorFlow's Savers know a variable: its own if it has one, else its path."""
    name, colon, _ = str(variable.name).partition(":")
    return name if colon else str(variable.path)


def join_parts(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the tensors of a checkpoint with those slots as one that belong to the parts of one variable.

    TensorFlow stores ``w/part_0/Adagrad`` and ``w/part_1/Adagrad``, each of the shape of all of ``w``, of
    which it has a part. They become ``w/Adagrad``.
    """
    joined: dict[str, Entry] = {}
    parts: dict[str, list[str]] = defaultdict(list)
    for name, entry in entries.items():
        match = _PART.fullmatch(name)
        if match is not None and match[1] in entries:
            parts[match[1] + match[2]].append(name)
        else:
            joined[name] = entry
    for name, names in parts.items():
        first = entries[names[0]]
        slices = tuple(part for each in names for part in entries[each].slices)
        joined[name] = replace(first, slices=slices) if len(names) > 1 else first
    return dict(sorted(joined.items()))


def is_whole(entry: Entry) -> bool:
    """Return whether a tensor has all of its values, and not only those of a part of its variable."""
    held = sum(math.prod(part.entry.shape) for part in entry.slices)
    return not entry.slices or held == math.prod(entry.shape)


@dataclass(frozen=True)
class _Slot:
    optimizer: str
    variable: str
    roles: tuple[str, ...]  # in the optimizers of Keras 3, and in those that follow Keras 2


def match_names(stored: Iterable[str], weights: Sequence[str], others: Iterable[str]) -> dict[str, str]:
    """Return which tensor each variable of a model is in a checkpoint that TensorFlow wrote.

    A weight has the same name there, or one without the names of the models that it is in. An optimizer's
    variables are found by the optimizer's name and kind.

    Args:
        stored: The names of the tensors, those of parts joined.
        weights: The paths of the model's own variables.
        others: The paths of its optimizers' variables, as Keras 3 names them, or Keras 2 their slots.

    Returns:
        Path -> name, of those variables that were found.
    """
    names = set(stored)
    found = {path: name for path in weights if (name := _weight(path, names)) is not None}
    times = Counter(found.values())
    found = {path: name for path, name in found.items() if times[name] == 1 or path == name}
    variables = {name: path for path, name in found.items()}
    slots = {}
    for name in names - variables.keys():
        if (slot := _slot(name, names)) is not None and (path := variables.get(slot.variable)) is not None:
            for role in slot.roles:
                slots[slot.optimizer, f"{path}/{role}".replace("/", "_")] = name
        elif match := _SCALAR.fullmatch(name):
            slots[_kind(match[1]), _SCALARS[match[2]]] = name
    for path in others:
        optimizer, _, role = path.rpartition("/")
        name = slots.get((_kind(optimizer.rpartition("/")[2]), role))
        if name is None and role == "iteration" and GLOBAL_STEP in names:
            name = GLOBAL_STEP  # what counts the steps of an optimizer that does not do it itself
        if name is not None:
            found[path] = name
    return found


def _weight(path: str, names: set[str]) -> str | None:
    while path not in names:
        _, slash, path = path.partition("/")
        if not slash:
            return None
    return path


def _slot(name: str, names: set[str]) -> _Slot | None:
    if match := _KERAS.fullmatch(name):
        return _Slot(_kind(match[1]), match[2], (_NAMED[match[3]], match[3]))
    variable, _, last = name.rpartition("/")
    kind = _kind(last)
    if variable not in names or kind not in _NUMBERED:
        return None
    number = _NUMBER.search(last)
    roles = _NUMBERED[kind]
    if kind == "rmsprop" and f"{variable}/{_NUMBER.sub('', last)}_2" in names:
        roles = _CENTERED_RMSPROP
    index = int(number[0][1:]) if number else 0
    return _Slot(kind, variable, (roles[index],)) if index < len(roles) else None


def _kind(optimizer: str) -> str:
    """Return the name of an optimizer in the form in which those of TensorFlow 1, Keras 2 and 3 agree."""
    return _NUMBER.sub("", optimizer).lower()
