"""`TrainSpec` and `EvalSpec`, the arguments of `train_and_evaluate`."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from muster.estimator._checks import check_instances, check_number, check_steps
from muster.estimator._model_fn import InputFn
from muster.estimator.exporters._exporter import Exporter
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener

_HOOKS = "All hooks must be `SessionRunHook`"


class _TrainFields(NamedTuple):
    input_fn: InputFn
    max_steps: int | None
    hooks: tuple[SessionRunHook, ...]
    saving_listeners: tuple[CheckpointSaverListener, ...]


class TrainSpec(_TrainFields):
    """The input, steps and hooks of training.

    Follows ``tf.estimator.TrainSpec`` (tensorflow_estimator/python/estimator/training.py), but a copy made by
    ``_replace`` is checked too, and no other attribute can be set.

    Args:
        input_fn: Returns the training data: a Dataset, or a pair (features, labels).
        max_steps: The step to stop at; None to train until the input ends.
        hooks: Hooks that run in training, on every worker.
        saving_listeners: Called around each checkpoint, on the chief.

    Raises:
        TypeError: A part has the wrong type.
        ValueError: ``max_steps`` is not positive.

    Example:
        ```python
        rows = Dataset.from_tensor_slices(({"x": np.arange(8.0)}, np.arange(8) % 2))
        spec = muster.estimator.TrainSpec(lambda: rows.shuffle(8).repeat().batch(4), max_steps=1000)
        ```
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: InputFn,
        max_steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        saving_listeners: Iterable[CheckpointSaverListener] | None = None,
    ) -> Self:
        _check_input_fn(input_fn)
        return super().__new__(
            cls,
            input_fn,
            check_steps("max_steps", max_steps),
            check_instances(_HOOKS, SessionRunHook, hooks),
            check_instances(
                "All saving_listeners must be `CheckpointSaverListener`",
                CheckpointSaverListener,
                saving_listeners,
            ),
        )

    def _replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked."""
        return type(self)(**(self._asdict() | changes))


class _EvalFields(NamedTuple):
    input_fn: InputFn
    steps: int | None
    name: str | None
    hooks: tuple[SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalFields):
    """The input, steps, frequency and exporters of evaluation.

    Follows ``tf.estimator.EvalSpec`` (tensorflow_estimator/python/estimator/training.py), but a copy made by
    ``_replace`` is checked too, no other attribute can be set, and a generator of exporters is not used up.

    Args:
        input_fn: Returns the evaluation data: a Dataset, or a pair (features, labels).
        steps: How many batches to evaluate; None for all.
        name: Tells evaluations on several data sets apart: the summaries go to ``<model_dir>/eval_<name>``.
        hooks: Hooks that run in evaluation.
        exporters: An exporter, or exporters with unique names, called after each evaluation.
        start_delay_secs: How long an evaluator waits before its first evaluation, in seconds.
        throttle_secs: The least time between the starts of two evaluations, in seconds.

    Raises:
        TypeError: A part has the wrong type.
        ValueError: A number is out of range, or the names of exporters are missing or not unique.

    Example:
        ```python
        rows = Dataset.from_tensor_slices(({"x": np.arange(8.0)}, np.arange(8) % 2))
        spec = muster.estimator.EvalSpec(lambda: rows.batch(4), steps=None, throttle_secs=60)
        ```
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: InputFn,
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        exporters: Exporter | Iterable[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> Self:
        _check_input_fn(input_fn)
        steps = check_steps("steps", steps)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            check_instances(_HOOKS, SessionRunHook, hooks),
            _checked_exporters(exporters),
            _seconds("start_delay_secs", start_delay_secs),
            _seconds("throttle_secs", throttle_secs),
        )

    def _replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked."""
        return type(self)(**(self._asdict() | changes))


def _check_input_fn(input_fn: object) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn}")


def _seconds(name: str, value: object) -> float:
    secs: float = check_number(name, value, f"Must specify {name} >= 0, given: {value}", positive=False)
    return secs


def _checked_exporters(argument: Exporter | Iterable[Exporter] | None) -> tuple[Exporter, ...]:
    """Return the exporters as a tuple, after a check that their names are unique."""
    if not argument:
        return ()
    if isinstance(argument, Exporter):
        argument = (argument,)
    exporters = tuple(argument) if isinstance(argument, Iterable) else None
    if exporters is None or not all(isinstance(each, Exporter) for each in exporters):
        raise TypeError(
            f"`exporters` must be an Exporter, an iterable of Exporter, or `None`, found {argument}."
        )
    names = [each.name for each in exporters]
    for name in names:
        if not name:
            raise ValueError(
                f"An Exporter cannot have a name that is `None` or empty. All exporter names: {names}"
            )
        if not isinstance(name, str):
            raise ValueError(f"An Exporter must have a string name. Given: {type(name)}")
    if len(set(names)) != len(names):
        raise ValueError(
            f"`exporters` must have unique names. Such a name cannot be `None`. All exporter names: {names}"
        )
    return exporters


def eval_folder(model_dir: str, name: str | None) -> str:
    """Return the folder of an evaluation's event files."""
    return os.path.join(model_dir, f"eval_{name}" if name else "eval")
