"""Save and restore the states of callbacks in backups: best values, counters, the length of a log."""

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from muster._errors import CheckpointError
from muster._keras import keras
from muster.program import NotPlainError, checksums, decode, encode

_log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]

_HOOKS = ("on_train_batch_begin", "on_train_batch_end")

# Attributes of Keras' callbacks that are of one run, or are made from others.
_OF_A_RUN: dict[type, set[str]] = {
    keras.callbacks.Callback: {"_model", "model", "params", "validation_data", *_HOOKS},
    keras.callbacks.EarlyStopping: {"monitor_op", "min_delta"},
    keras.callbacks.ModelCheckpoint: {"monitor_op", "min_delta", "filepath"},
    keras.callbacks.ReduceLROnPlateau: {"monitor_op", "min_delta"},
    keras.callbacks.CSVLogger: {"csv_file", "writer", "append", "append_header"},
    keras.callbacks.TensorBoard: {
        *("log_dir", "_log_write_dir", "_train_dir", "_val_dir", "_writers", "_prev_summary_state"),
        *("_should_write_train_graph", "_batch_start_time", "_epoch_start_time", "_summary_module"),
        *("_is_tracing", "_profiler_started", "_batch_trace_context", "_start_batch", "_stop_batch"),
    },
    keras.callbacks.ProgbarLogger: {"progbar", "seen", "target", "epochs", "_called_in_fit"},
    keras.callbacks.History: {"history", "epoch"},  # as in Keras: of the epochs of this run
}


class CallbackStates:
    """Keeps the states of a training's callbacks, and gives them back after a restart.

    The state of a callback is what its ``get_state`` returns. Without one it is every attribute whose value
    is plain, and is not what it was when training began: so what a program chooses, such as a patience, is
    that of the program. Of workers the chief's count.

    Args:
        callbacks: The callbacks of this worker. They are told apart by their classes and their order.

    Raises:
        TypeError: One has only one of the methods ``get_state`` and ``set_state``.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback]) -> None:
        self._callbacks: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        for each in callbacks:
            name = type(each).__qualname__
            _check_methods(each, name)
            counts[name] += 1
            self._callbacks[name if counts[name] == 1 else f"{name} {counts[name]}"] = each
        self._has_begun = False
        self._begun: dict[str, dict[str, Any]] = {}
        self._told: set[tuple[str, str]] = set()
        self._saved: frozenset[int] = frozenset()

    def prepare(self) -> None:
        """Prepare callbacks for going on, before training begins: logs are not begun anew."""
        for each in self._of_type(keras.callbacks.CSVLogger):
            each.append = True

    def begin(self, saved: Iterable[Any]) -> None:
        """Note what callbacks hold when training has begun, before any state is given to them; once.

        Args:
            saved: The variables that are saved elsewhere.
        """
        if self._has_begun:
            return
        self._has_begun = True
        self._saved = frozenset(map(id, saved))
        self._begun = {
            name: {attribute: self._seen(value) for attribute, value in _attributes(each)}
            for name, each in self._callbacks.items()
            if not _says(each)
        }

    def save(self) -> tuple[dict[str, Any], list[Array]]:
        """Return the states, as JSON by callback, and the arrays in them, which are copies.

        Raises:
            TypeError: A callback's ``get_state`` returned what cannot be kept.
        """
        arrays: list[Array] = []
        return {name: self._state(name, each, arrays) for name, each in self._callbacks.items()}, arrays

    def restore(self, states: dict[str, Any], arrays: list[Array], advice: str) -> None:
        """Give callbacks the states of an earlier run.

        Args:
            states: What `save` returned.
            arrays: The arrays in them.
            advice: What to do if a callback does not take its state, for the message.

        Raises:
            CheckpointError: A callback's ``set_state`` failed.
        """
        for name, state in states.items():
            if name not in self._callbacks:
                if state.get("given") or state.get("attributes"):
                    _log.info("The backup has the state of a callback %s, which fit does not have now.", name)
                continue
            callback = self._callbacks[name]
            if "given" in state and _says(callback):
                try:
                    callback.set_state(decode(state["given"], arrays))
                except Exception as exc:  # the user's code
                    raise CheckpointError(
                        f"The callback {name} does not take its state of the backup, "
                        f"{type(exc).__name__}: {exc}. {advice}"
                    ) from exc
            for attribute, value in state.get("attributes", {}).items():
                self._set(name, callback, attribute, value, arrays)
            _set_direction(callback, state.get("rises"))
            if "size" in state and isinstance(callback, keras.callbacks.CSVLogger):
                _cut(callback, state["size"])

    def telling_from(self, step: int) -> contextlib.ExitStack:
        """Let callbacks not be told of an epoch's first steps, until the stack that is returned is closed.

        Args:
            step: The first step that they are told of.
        """
        undo = contextlib.ExitStack()
        for each in self._callbacks.values():
            for hook in _HOOKS:
                given = vars(each).get(hook)
                setattr(each, hook, _from(step, getattr(each, hook)))
                undo.callback(vars(each).pop if given is None else each.__setattr__, hook, given)
        return undo

    def _of_type(self, kind: type) -> Iterator[Any]:
        return (each for each in self._callbacks.values() if isinstance(each, kind))

    def _state(self, name: str, callback: Any, arrays: list[Array]) -> dict[str, Any]:
        if _says(callback):
            try:
                return {"given": encode(callback.get_state(), arrays, self._saved)}
            except NotPlainError as exc:
                raise TypeError(
                    f"{name}.get_state returned what a backup cannot keep, {exc}. Return numbers, texts, "
                    "arrays, and lists, tuples and dicts of them."
                ) from exc
        begun = self._begun.get(name, {})
        found = {}
        for attribute, value in _attributes(callback):
            own: list[Array] = []
            try:
                encoded = encode(value, own, self._saved)
            except NotPlainError as exc:
                if begun.get(attribute) != id(value):
                    self._tell(name, attribute, exc)
                continue
            if begun.get(attribute) != [encoded, checksums(own)]:
                # Encoded anew: its arrays are numbered among those of all.
                found[attribute] = encode(value, arrays, self._saved)
        state: dict[str, Any] = {"attributes": found}
        operator = getattr(callback, "monitor_op", None)
        if operator in (keras.ops.greater, keras.ops.less):
            state["rises"] = operator is keras.ops.greater
        if isinstance(callback, keras.callbacks.CSVLogger) and callback.csv_file is not None:
            state["size"] = callback.csv_file.tell()
        return state

    def _seen(self, value: Any) -> Any:
        """Return what is equal as long as a value is; of a value that is not plain, its id."""
        arrays: list[Array] = []
        try:
            return [encode(value, arrays, self._saved), checksums(arrays)]
        except NotPlainError:
            return id(value)

    def _set(self, name: str, callback: Any, attribute: str, value: Any, arrays: list[Array]) -> None:
        present = vars(callback).get(attribute)
        try:
            setattr(callback, attribute, decode(value, arrays, present))
        except NotPlainError as exc:
            _log.warning("%s.%s begins anew: the backup has %s.", name, attribute, exc)

    def _tell(self, name: str, attribute: str, exc: NotPlainError) -> None:
        if (name, attribute) not in self._told:
            self._told.add((name, attribute))
            _log.warning(
                "Backups do not keep %s.%s, %s: after a restart it begins anew. Give the callback "
                "get_state(), which returns numbers, texts, arrays and collections of them, and "
                "set_state(state).",
                name,
                attribute,
                exc,
            )


def _check_methods(callback: Any, name: str) -> None:
    has, lacks = "get_state", "set_state"
    if not hasattr(callback, has):
        has, lacks = lacks, has
    if hasattr(callback, has) and not hasattr(callback, lacks):
        raise TypeError(
            f"The callback {name} has {has} and no {lacks}. Give it both: get_state() returns what a backup "
            "keeps, and set_state(state) takes it after a restart."
        )


def _says(callback: Any) -> bool:
    """Return whether a callback says itself what is kept of it."""
    return hasattr(callback, "get_state")


def _attributes(callback: Any) -> Iterator[tuple[str, Any]]:
    left = set().union(*(names for kind, names in _OF_A_RUN.items() if isinstance(callback, kind)))
    return ((name, value) for name, value in vars(callback).items() if name not in left)


def _set_direction(callback: Any, rises: bool | None) -> None:
    """Let a callback know which values are better, which Keras else finds out at the end of an epoch."""
    if rises is None or getattr(callback, "monitor_op", 0) is not None:
        return
    callback.monitor_op = keras.ops.greater if rises else keras.ops.less
    if not rises:
        callback.min_delta *= -1


def _cut(callback: Any, size: int) -> None:
    """Cut what a log has of epochs that are trained again."""
    if callback.csv_file is None or callback.csv_file.closed:
        return
    if size <= os.fstat(callback.csv_file.fileno()).st_size:
        callback.csv_file.truncate(size)


def _from(step: int, hook: Callable[..., None]) -> Callable[..., None]:
    def call(batch: int, logs: Any = None) -> None:
        if batch >= step:
            hook(batch, logs=logs)

    return call
