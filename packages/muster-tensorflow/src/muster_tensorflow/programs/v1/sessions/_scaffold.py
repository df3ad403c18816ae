"""`Scaffold` and `Saver`: TensorFlow 1's setup of a training session."""

import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from muster import keras
from muster.checkpoint.tensorflow import read_either
from muster.estimator import ModelSetup, Session
from muster.extend import (
    AnyArray,
    Fetches,
    VariableSpec,
    current_scope,
    initialized,
    local_path,
    map_fetches,
)
from muster_tensorflow.library.ops._variable_methods import initial_values

_log = logging.getLogger(__name__)

_GLOBAL_STEP = "global_step"
_NAMES_OF_SAVERS = frozenset(
    "name restore_sequentially saver_def builder defer_build allow_empty write_version pad_step_number "
    "save_relative_paths filename".split()
)


class InitialValues:
    """Holds the values from which a model's variables start, for an ``init_fn`` to change.

    Args:
        values: Path -> array of global shape; `set_variable_value` changes them.
        pairs: The description of each variable, and the variable as the model_fn had it.
    """

    def __init__(
        self, values: MutableMapping[str, Any], pairs: Sequence[tuple[VariableSpec, keras.Variable]] = ()
    ) -> None:
        self._values = values
        self.pairs = pairs

    def variables(self) -> list[str]:
        """Return the paths of all variables, sorted."""
        return sorted(self._values)

    def get_variable_value(self, path: str) -> np.ndarray[Any, Any]:
        """Return a copy of the value from which a variable starts.

        Raises:
            KeyError: There is no such variable.
        """
        return np.array(self._known(path))

    def set_variable_value(self, path: str, value: Any) -> None:
        """Let a variable start from a value of its shape.

        Raises:
            KeyError: There is no such variable.
            ValueError: The shape is another, or it is the global step.
        """
        before, value = self._known(path), np.asarray(value)
        if path == _GLOBAL_STEP:
            raise ValueError(
                "The global step starts at 0: leave it out, or give the Estimator a checkpoint to go on from."
            )
        if value.shape != before.shape:
            raise ValueError(f"{path} has the shape {before.shape}, given a value of shape {value.shape}.")
        self._values[path] = value.astype(before.dtype)

    def run(self, fetches: Fetches, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Read variables; of TensorFlow 1's initializers, do nothing.

        Args:
            fetches: Variables or their paths, or a nested structure of them; or initializers.
            feed_dict: Only for initializers.

        Raises:
            KeyError: There is no such variable.
            TypeError: It is something else.
        """
        if initialized(fetches, feed_dict):
            return None
        return map_fetches(lambda name: self.get_variable_value(name.removesuffix(":0")), fetches)

    def _known(self, path: str) -> Any:
        if path not in self._values:
            raise KeyError(f"There is no variable {path!r}. There are: {', '.join(self.variables())}.")
        return self._values[path]


class Saver:
    """Sets the number of checkpoints that training keeps, and restores values in an ``init_fn``.

    Args:
        var_list: The variables that `restore` reads: variables of the model or their paths, or a dict of
            these by their names in the checkpoint. None for all that a checkpoint has.
        reshape: Only False.
        sharded: Ignored: servers always write their own parts.
        max_to_keep: The number of newest checkpoints to keep; 0 or None keeps all.
        keep_checkpoint_every_n_hours: Of the older ones, the first of each period of so many hours is kept.
        **ignored: Further arguments of TensorFlow's, which change nothing here.

    Raises:
        TypeError: There is no such argument.
        ValueError: Variables are to be reshaped.

    Source: ``Saver`` (tensorflow/python/training/saver.py).
    """

    def __init__(
        self,
        var_list: Mapping[str, Any] | Iterable[Any] | None = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        **ignored: Any,
    ) -> None:
        if unknown := sorted(ignored.keys() - _NAMES_OF_SAVERS):
            raise TypeError(f"Saver takes no arguments {unknown}.")
        if reshape:
            raise ValueError("reshape must be False: a variable starts from values of its own shape.")
        self.max_to_keep = max_to_keep
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._names = None if var_list is None else _paths_by_name(var_list)

    def restore(self, sess: InitialValues | Session, save_path: str | os.PathLike[str]) -> None:
        """Let variables start from the values of a checkpoint, muster's or TensorFlow's.

        Args:
            sess: What an ``init_fn`` gets, or a hook in ``after_create_session``.
            save_path: The checkpoint.

        Raises:
            CheckpointError: The checkpoint cannot be read.
            ValueError: It lacks a variable, or a shape differs.
        """
        stored = read_either(save_path, mapped=True).variables
        if self._names is None:
            known = [each for each in sess.variables() if each in stored and each != _GLOBAL_STEP]
            chosen: dict[str, AnyArray] = {path: stored[path] for path in known}
        else:
            chosen = self.chosen(stored, local_path(save_path))
        for path, value in chosen.items():
            sess.set_variable_value(path, value)

    def chosen(
        self, stored: Mapping[str, AnyArray], source: str, without: Container[str] = ()
    ) -> dict[str, AnyArray]:
        """Return the values of the variables that it was given, by path; none if it was given none.

        Args:
            stored: Name in a checkpoint -> value.
            source: The path of the checkpoint, for the error.
            without: The paths of variables to leave out.

        Raises:
            ValueError: A variable is not there.
        """
        names = {name: path for name, path in (self._names or {}).items() if path not in without}
        if missing := sorted(names.keys() - stored.keys()):
            raise ValueError(
                f"Key {', '.join(missing)} not found in checkpoint {source}. "
                "tf.train.list_variables lists those that are there: training saves variables by their own "
                "names, whatever its saver calls them."
            )
        return {path: stored[name] for name, path in names.items()}


InitFn = Callable[["Scaffold", InitialValues], object]


class Scaffold(ModelSetup):
    """Sets what variables start from, and how many checkpoints training keeps.

    There is no graph to set up, so that operations that initialize one, or say that it is ready, are ignored,
    with a warning.

    Args:
        init_op: Ignored.
        init_feed_dict: Ignored.
        init_fn: Called with this and an `InitialValues` where no checkpoint is restored, once variables have
            their initial values, in every task.
        ready_op: Ignored.
        ready_for_local_init_op: Ignored.
        local_init_op: Ignored.
        summary_op: For a `SummarySaverHook` that is given this.
        saver: Says how many checkpoints are kept, instead of the `RunConfig`. In evaluation and prediction,
            which values of the checkpoint variables have, such as moving averages of them. A
            ``tf.train.Checkpoint`` says nothing, with a warning.
        copy_from_scaffold: Another one, of which this takes what is not given here.
        local_init_feed_dict: Ignored.

    Raises:
        TypeError: The other one, or the saver, is none.

    Source: ``Scaffold`` (tensorflow/python/training/monitored_session.py).
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: InitFn | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Saver | None = None,
        copy_from_scaffold: "Scaffold | None" = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        if not isinstance(copy_from_scaffold, Scaffold | None):
            raise TypeError(f"copy_from_scaffold is not a Scaffold instance. Given: {copy_from_scaffold!r}")
        if not isinstance(saver, Saver) and hasattr(saver, "restore"):
            _warn_of_saver(type(saver).__name__)
            saver = None
        if not isinstance(saver, Saver | None):
            raise TypeError(f"saver must be a tf.compat.v1.train.Saver. Given: {saver!r}")
        other = copy_from_scaffold
        scope = current_scope()
        self._table = None if scope is None else scope.bindings.table
        self.init_fn: InitFn | None = init_fn or (other.init_fn if other else None)
        self.saver: Saver | None = saver or (other.saver if other else None)
        self.summary_op: Any = summary_op if summary_op is not None or other is None else other.summary_op
        given = {
            "init_op": init_op,
            "init_feed_dict": init_feed_dict,
            "ready_op": ready_op,
            "ready_for_local_init_op": ready_for_local_init_op,
            "local_init_op": local_init_op,
            "local_init_feed_dict": local_init_feed_dict,
        }
        if ignored := tuple(name for name, value in given.items() if value is not None):
            _warn_once(ignored)

    @property
    def retention(self) -> tuple[int | None, float] | None:
        """The number of checkpoints that the saver keeps; None without a saver."""
        saver = self.saver
        return None if saver is None else (saver.max_to_keep, saver.keep_checkpoint_every_n_hours)

    def chosen(
        self, stored: Mapping[str, AnyArray], source: str, without: Container[str]
    ) -> Mapping[str, AnyArray]:
        """Return the values of the saver's variables: see `Saver.chosen`."""
        return {} if self.saver is None else self.saver.chosen(stored, source, without)

    def initialize(self, values: MutableMapping[str, Any]) -> None:
        """Call the ``init_fn``, if there is one, on the values from which variables start, by path."""
        if self.init_fn is not None:
            given = InitialValues(values, () if self._table is None else self._table.pairs)
            with initial_values(given):
                self.init_fn(self, given)


@cache
def _warn_once(ignored: tuple[str, ...]) -> None:
    # A model_fn makes its Scaffold anew each time that it is called.
    _log.warning(
        "Scaffold ignores %s: there is no graph to initialize or to wait for. Variables start from their "
        "initializers, and what init_fn sets.",
        ", ".join(ignored),
    )


@cache
def _warn_of_saver(kind: str) -> None:
    _log.warning(
        "Scaffold ignores its saver, a %s: an Estimator saves all variables, by their names. Read them by "
        "tf.train.load_variable or Estimator.get_variable_value.",
        kind,
    )


def _paths_by_name(var_list: Mapping[str, Any] | Iterable[Any]) -> dict[str, str]:
    if isinstance(var_list, Mapping):
        return {name: _path(each) for name, each in var_list.items()}
    paths = map(_path, var_list)
    return {path: path for path in paths}


def _path(variable: Any) -> str:
    return variable.path if isinstance(variable, keras.Variable) else str(variable)
