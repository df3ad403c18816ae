"""The session of a training, evaluation or prediction, which hooks read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np

from muster._paths import local_path
from muster.distribute.engine import StateStore
from muster.distribute.workers import Exchanged
from muster.estimator.session._fetches import Fetches, map_fetches
from muster.program import Output, only_data_errors
from muster.program.variables import VariableSpec

State: TypeAlias = Mapping[str, jax.Array]
"""Variable path -> array."""
Outputs: TypeAlias = Mapping[str, Any]
"""Output name -> array, or a nested structure of arrays, which may not be computed yet."""


_GLOBAL_STEP = "global_step"


class SaveState(Protocol):
    """Writes a checkpoint."""

    def __call__(self, store: StateStore, step: int, wait: bool, directory: str | None) -> None:
        """Save the state as of ``step``; with ``wait``, return once the checkpoint is complete.

        Args:
            store: Has the arrays of the variables by path.
            step: The global step.
            wait: Whether to return only when the checkpoint is complete.
            directory: Where to save; None for the model directory.
        """

    def is_late(self, directory: str) -> bool:
        """Return whether a periodic save has to be put off, since the one before is still being written.

        Args:
            directory: Where to save.
        """


class Offers(Protocol):
    """The values that a step can return, for hooks that ask for them by name."""

    def ask(self, name: str) -> bool:
        """Let the next step return the value of this name, and return whether there is one."""

    def name_of(self, value: object) -> str | None:
        """Return the name of a value that the code had in its hands when it was traced, if it has one."""


class Coordinator:
    """Takes requests to stop.

    Source: tensorflow/python/training/coordinator.py, ``Coordinator``, as far as hooks use it.
    """

    __slots__ = ("_stop",)

    def __init__(self) -> None:
        """Start without a request to stop."""
        self._stop = False

    def request_stop(self) -> None:
        """Stop after the current run; before the first run, if none has begun."""
        self._stop = True

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._stop


class Session:
    """The variables, the outputs of the last step and the global step, for hooks to read.

    Attributes:
        state: Variable path -> array, as the last step left it.
        outputs: Name -> array of the last step, computed or not; empty before the first step.
        earlier_outputs: The outputs of the steps before it in its run, one by one.
        global_step: The current step, a Python int.
        stands_still: Whether no step advances the global step.
        steps_taken: How many steps this session has made.
        batches: The batches of the last run.
        coord: Takes requests to stop.
        input_wait_secs: How long all runs together waited for their batches, in seconds.
        exchanged: What this process exchanges with other tasks.
        resources: Closed when the session ends, with an error or without; for files that hooks open.
        interrupted: Returns whether Ctrl-C or SIGTERM came, which ends training after the run: a hook is to
            wait no longer then.
        pairs: The description of each variable, and the variable as the code had it when it was traced.
        summaries: Tag -> the output to write as a summary.
        look_up_step: Returns the global step that workers beside this one have come to, None once the job has
            ended. None if nobody else advances the global step.

    Source: tensorflow/python/training/monitored_session.py, ``MonitoredSession``.
    """

    def __init__(
        self,
        store: StateStore,
        *,
        global_step: int = 0,
        count_steps: Callable[[Outputs], int] | None = None,
        save: SaveState | None = None,
        output_names: Collection[str] | None = None,
        offers: Offers | None = None,
        pairs: Sequence[tuple[VariableSpec, Any]] = (),
        summaries: Mapping[str, Output] = MappingProxyType({}),
        run_eagerly: Callable[[Any], object] = lambda batch: None,
        look_up_step: Callable[[], int | None] | None = None,
    ) -> None:
        """Start a session.

        Args:
            store: The arrays of the variables by path, initial or restored.
            global_step: The value of the global step in the state.
            count_steps: Returns the global step after a run from its outputs, waiting for the device if need
                be; None if every step adds exactly one.
            save: Writes checkpoints; None if this session has none.
            output_names: The names of the step's outputs, if they are known before it runs.
            offers: What else the step can return; None for nothing.
            pairs: The attribute.
            summaries: The attribute.
            run_eagerly: Runs the step's code on the numbers of a batch, and forgets the results.
            look_up_step: The attribute.
        """
        self.store = store
        self.outputs: Outputs = {}
        self.earlier_outputs: Sequence[Outputs] = ()
        self.global_step = global_step
        self.steps_taken = 0
        self.stands_still = False
        self.batches: Sequence[Any] = ()
        self.coord = Coordinator()
        self.input_wait_secs = 0.0
        self.exchanged = Exchanged()
        self.resources = ExitStack()
        self.interrupted: Callable[[], bool] = lambda: False
        self.look_up_step = look_up_step
        self.pairs = pairs
        self.summaries = summaries
        self._count_steps = count_steps
        self._save = save
        self._output_names = output_names
        self._offers = offers
        self._run_eagerly = run_eagerly
        self._checks: list[Callable[[Session], None]] = []

    @property
    def state(self) -> State:
        """Variable path -> array, as the last step left it."""
        state: State = self.store.peek()
        return state

    @property
    def adds_one(self) -> bool:
        """True if each step increments the global step by one, and nothing else changes it."""
        return self._count_steps is None

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self.coord.should_stop()

    def advance(
        self, state: State, outputs: Outputs, steps: int = 1, earlier: Sequence[Outputs] = ()
    ) -> None:
        """Replace state and outputs by what steps returned.

        Args:
            state: Variable path -> array.
            outputs: Output name -> array, of the last step.
            steps: How many steps there were.
            earlier: The outputs of the steps before it in its run that were taken one by one.
        """
        self.store.give(state)
        self.outputs, self.earlier_outputs = outputs, earlier
        self.steps_taken += steps
        if self._count_steps is None:
            self.global_step += steps
        else:
            self.global_step = self._count_steps(outputs)

    def renew(self) -> None:
        """Take over the values and the global step that all workers have come to, where they share them."""
        if self.store.renew():
            # This worker's last step put out the global step that it made; others have gone on.
            outputs = {name: value for name, value in self.outputs.items() if name != _GLOBAL_STEP}
            self.advance(self.state, outputs, steps=0)

    def save_by(self, save: SaveState) -> None:
        """Let checkpoints be written by something else from now on."""
        self._save = save

    def add_check(self, check: Callable[[Session], None]) -> None:
        """Add a check of the last step, made before values are read, before a save and at the end.

        Args:
            check: Called with the session; it may raise, or ask to stop.
        """
        self._checks.append(check)

    def check_step(self) -> None:
        """Run the checks of the last step, which wait for the values that they need."""
        for check in self._checks:
            check(self)

    def explain(self, batches: Sequence[Any]) -> None:
        """Raise the error for which a step returned NaN, if it has one when it is run eagerly.

        Args:
            batches: The batches of the step, or of steps that ran together.

        Raises:
            DatasetError: The data of a batch is wrong.
        """
        for batch in batches:
            with only_data_errors():
                self._run_eagerly(batch)

    def output(self, name: str) -> Any:
        """Return an output of the last step without waiting for it.

        Raises:
            KeyError: The last step has no such output.
        """
        try:
            return self.outputs[name]
        except KeyError:
            raise self._unknown(name) from None

    def run(self, fetches: Fetches, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Read outputs of the last step, or variables, once they are computed.

        Args:
            fetches: The name of an output or the path of a variable, or a nested structure of them.
                TensorFlow's ``loss:0`` is read as ``loss``. Or initializers of TensorFlow 1's iterators.
            feed_dict: Placeholder -> array, for initializers; None for all else.

        Returns:
            NumPy values in the structure of ``fetches``, which the caller may keep.

        Raises:
            KeyError: There is no such output and no such variable.
            TypeError: A fetch is neither a name nor an `Output`.
            ValueError: Something else than an initializer is to be fed.
        """
        if initialized(fetches, feed_dict):
            return None
        if feed_dict:
            raise ValueError(
                f"session.run feeds {feed_dict!r}, but a compiled step reads its batch and nothing else. Put "
                "the value into the input pipeline, or into a variable."
            )
        self.check_step()
        return map_fetches(self._read, fetches)

    def require(self, fetches: Fetches) -> None:
        """Refuse unknown names, if the names of outputs are known before the first step.

        From the next step on, values that it only offers are among its outputs.

        Args:
            fetches: As for ``run``.

        Raises:
            KeyError: A name is neither an output nor a variable.
            TypeError: A fetch is neither a name nor an `Output`.
        """
        map_fetches(self._require, fetches)

    def variables(self) -> tuple[str, ...]:
        """Return the paths of all variables."""
        return tuple(self.state)

    def get_variable_value(self, path: str) -> Any:
        """Return the current value of a variable.

        Returns:
            A NumPy array of the variable's global shape, or a NumPy scalar; a copy.

        Raises:
            KeyError: There is no such variable.
        """
        self._require_variable(path)
        # Copied on the device: a NumPy view of a CPU buffer would keep the next step from reusing it.
        return np.asarray(self.state[path].copy())[()]

    def set_variable_value(self, path: str, value: Any) -> None:
        """Let a variable go on from a value of its shape, as a ``Saver`` of TensorFlow 1 does in a hook.

        Every worker does so. The hooks of an Estimator do it best in ``after_create_session``.

        Raises:
            KeyError: There is no such variable.
            RuntimeError: Parameter servers hold the variables.
            ValueError: The shape is another.
        """
        self._require_variable(path)
        if self.look_up_step is not None:
            raise RuntimeError(
                f"Parameter servers hold {path}, which a hook cannot set: set what it starts from instead."
            )
        state, value = self.state, np.asarray(value)
        before = state[path]
        if value.shape != before.shape:
            raise ValueError(f"{path} has the shape {before.shape}, given a value of shape {value.shape}.")
        # One that lies in a file goes where the others are.
        near = next(each for each in (before, *state.values()) if isinstance(each, jax.Array))
        placed = jax.device_put(value.astype(before.dtype), near.sharding)
        self.store.give({**state, path: placed})
        if path == _GLOBAL_STEP:
            self.global_step = int(value)

    def _require_variable(self, path: str) -> None:
        if path not in self.state:
            raise KeyError(f"There is no variable {path!r}. There are: {', '.join(sorted(self.state))}.")

    def save(self, step: int, wait: bool = False, directory: str | None = None) -> None:
        """Save a checkpoint, once the checks of the last step have passed.

        Args:
            step: The step that it is named after.
            wait: Whether to return only when it is complete.
            directory: Where to save; None for the model directory.

        Raises:
            RuntimeError: This session does not save.
            PathError: The directory has a scheme that muster has no file system for.
        """
        if self._save is None:
            raise RuntimeError(
                f"This session has nowhere to save step {step}: only training writes checkpoints. "
                "Give CheckpointSaverHook to Estimator.train, or give it a saver."
            )
        place = None if directory is None else local_path(directory, remote=True)
        self.check_step()
        self._save(self.store, step, wait, place)

    def is_late(self, directory: str) -> bool:
        """Return whether a periodic save into a directory has to be put off: see `SaveState`."""
        return self._save is not None and self._save.is_late(local_path(directory, remote=True))

    def _read(self, name: Any) -> Any:
        found = self._find(name)
        if found in self.outputs:
            return np.asarray(self.outputs[found])[()]
        return self.get_variable_value(found)

    def _require(self, name: Any) -> None:
        if self._output_names is None:
            return
        for candidate in _spellings(self._named(name)):
            if candidate in self._output_names or candidate in self.state:
                return
            if self._offers is not None and self._offers.ask(candidate):
                return
        raise self._unknown(name)

    def _find(self, name: Any) -> str:
        known = self.outputs or self._output_names or ()
        for candidate in _spellings(self._named(name)):
            if candidate in known or candidate in self.state:
                return candidate
        raise self._unknown(name)

    def _named(self, fetch: Any) -> str:
        """Return a name, or that of a value that the code had in its hands when it was traced."""
        if isinstance(fetch, str):
            return fetch
        name = None if self._offers is None else self._offers.name_of(fetch)
        return repr(fetch) if name is None else name

    def _unknown(self, name: Any) -> KeyError:
        known = self.outputs or self._output_names or ()
        return KeyError(
            f"There is no output or variable {name!r}. Outputs: {', '.join(sorted(known)) or 'none yet'}. "
            f"Variables: {', '.join(sorted(self.state)) or 'none'}."
        )


class Initializer:
    """Begins something when `Session.run` is given it, with values that it is fed. This one does nothing."""

    def run(self, feed_dict: Mapping[Any, Any] | None = None, session: object = None) -> None:
        """Do nothing."""


def initialized(fetches: Any, feed_dict: Mapping[Any, Any] | None) -> bool:
    """Run fetches, and return True, if they are initializers; return False for others.

    Args:
        fetches: One, or a list or tuple.
        feed_dict: Placeholder -> array.

    Raises:
        ValueError: The value of a placeholder is missing, or has another shape.
    """
    initializers = fetches if isinstance(fetches, list | tuple) else [fetches]
    if not initializers or not all(isinstance(each, Initializer) for each in initializers):
        return False
    for initializer in initializers:
        initializer.run(feed_dict)
    return True


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name, and the one that TensorFlow's name of an operation's first result, ``loss:0``, means."""
    return (name, name.removesuffix(":0")) if name.endswith(":0") else (name,)
