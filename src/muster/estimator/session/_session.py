"""What hooks see of a training or evaluation: its variables, its last step, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, Protocol, TypeAlias

import numpy as np

from muster.distribute.engine._state_store import StateStore
from muster.estimator.hooks import Fetches
from muster.program import Output

State: TypeAlias = Mapping[str, Any]
"""Variable path -> array; the arrays may live on a device."""
Outputs: TypeAlias = Mapping[str, Any]
"""Output name -> array; the arrays may live on a device and may not be computed yet."""


class SaveState(Protocol):
    """Writes a checkpoint."""

    def __call__(self, state: Any, step: int, wait: bool) -> None:
        """Save ``state`` as of ``step``; with ``wait``, return once the checkpoint is complete."""


class Coordinator:
    """Takes requests to stop.

    Source: tensorflow/python/training/coordinator.py, ``Coordinator``, of which hooks use this much.
    """

    __slots__ = ("_stop",)

    def __init__(self) -> None:
        """Start without a request."""
        self._stop = False

    def request_stop(self) -> None:
        """Let the current run be the last; no run at all if none has begun."""
        self._stop = True

    def should_stop(self) -> bool:
        """Whether someone asked to stop."""
        return self._stop


class Session:
    """Variables, the outputs of the last step, and where training stands: what hooks see.

    Attributes:
        state: variable path -> array, as the last step left it.
        outputs: name -> array of the last step, computed or not; empty before the first.
        global_step: the current step, known on the host.
        steps_taken: how many steps this session has made.
        coord: takes requests to stop.
        input_wait_secs: seconds that all runs together waited for their batches.
        resources: closed when the session ends, however it ends; for files that hooks open.

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
    ) -> None:
        """Describe where the session starts.

        Args:
            store: Holds the state: variable path -> array, initial or restored.
            global_step: the value of the global step in the state.
            count_steps: the global step after a run, from the run's outputs, which may wait for the device;
                None if every run adds exactly one.
            save: writes checkpoints; None if this session has none.
            output_names: names of the step's outputs, if they are known before it runs.
        """
        self.store = store
        self.outputs: Outputs = {}
        self.global_step = global_step
        self.steps_taken = 0
        self.coord = Coordinator()
        self.input_wait_secs = 0.0
        self.resources = ExitStack()
        self._count_steps = count_steps
        self._save = save
        self._output_names = output_names
        self._checks: list[Callable[[Session], None]] = []

    @property
    def state(self) -> Any:
        """Variable path -> array, as the last step left it."""
        return self.store.peek()

    def should_stop(self) -> bool:
        """Whether someone asked to stop."""
        return self.coord.should_stop()

    def advance(self, state: Any, outputs: Outputs, steps: int = 1) -> None:
        """Take over what steps returned.

        Args:
            state: variable path -> array.
            outputs: output name -> array, of the last of them.
            steps: how many they were.
        """
        self.store.give(state)
        self.outputs = outputs
        self.steps_taken += steps
        if self._count_steps is None:
            self.global_step += steps
        else:
            self.global_step = self._count_steps(outputs)

    def add_check(self, check: Callable[[Session], None]) -> None:
        """Have something looked at whenever the last step is waited for: before reads, saves and the end.

        Args:
            check: called with the session; it may raise, or ask to stop.
        """
        self._checks.append(check)

    def check_step(self) -> None:
        """Run the checks on the last step, waiting for what they need of it."""
        for check in self._checks:
            check(self)

    def output(self, name: str) -> Any:
        """An output of the last step as it is, computed or not: nothing is read or waited for.

        Args:
            name: the output.

        Raises:
            KeyError: if the last step has no such output.
        """
        try:
            return self.outputs[name]
        except KeyError:
            raise self._unknown(name) from None

    def run(self, fetches: Fetches) -> Any:
        """Read outputs of the last step, or variables. Waits for the step; computes nothing.

        Args:
            fetches: a name of an output or path of a variable, or a nest of them. TensorFlow's ``loss:0`` is
                read as ``loss``.

        Returns:
            NumPy values in the structure of ``fetches``, which the caller may keep.

        Raises:
            KeyError: if there is no such output and no such variable.
            TypeError: if a fetch is neither a name nor a handle.
        """
        self.check_step()
        return _map_fetches(self._read, fetches)

    def require(self, fetches: Fetches) -> None:
        """Refuse names that no step of this session will have, where that is known before the first one.

        Args:
            fetches: as for ``run``.

        Raises:
            KeyError: if a name is neither an output nor a variable.
            TypeError: if a fetch is neither a name nor a handle.
        """
        _map_fetches(self._require, fetches)

    def variables(self) -> tuple[str, ...]:
        """Paths of all variables."""
        return tuple(self.state)

    def get_variable_value(self, path: str) -> Any:
        """The current value of a variable.

        Args:
            path: of the variable.

        Returns:
            A NumPy array of the variable's global shape, or a NumPy scalar; a copy.

        Raises:
            KeyError: if there is no such variable.
        """
        if path not in self.state:
            raise KeyError(f"There is no variable {path!r}. There are: {', '.join(sorted(self.state))}.")
        # Copied on the device: a NumPy view of a CPU buffer would keep the next step from reusing it.
        return np.asarray(self.state[path].copy())[()]

    def save(self, step: int, wait: bool = False) -> None:
        """Write a checkpoint, once the checks on the last step have passed.

        Args:
            step: the step it is named after.
            wait: whether to return only when it is complete.

        Raises:
            RuntimeError: if this session does not save.
        """
        if self._save is None:
            raise RuntimeError(
                f"This session has nowhere to save step {step}: only training writes checkpoints. "
                "Give CheckpointSaverHook to Estimator.train, or give it a saver."
            )
        self.check_step()
        self._save(self.state, step, wait)

    def _read(self, name: str) -> Any:
        found = self._find(name)
        if found in self.outputs:
            return np.asarray(self.outputs[found])[()]
        return self.get_variable_value(found)

    def _require(self, name: str) -> None:
        if self._output_names is not None:
            self._find(name)

    def _find(self, name: str) -> str:
        known = self.outputs or self._output_names or ()
        for candidate in (name, name.removesuffix(":0")):
            if candidate in known or candidate in self.state:
                return candidate
        raise self._unknown(name)

    def _unknown(self, name: str) -> KeyError:
        known = self.outputs or self._output_names or ()
        return KeyError(
            f"There is no output or variable {name!r}. Outputs: {', '.join(sorted(known)) or 'none yet'}. "
            f"Variables: {', '.join(sorted(self.state)) or 'none'}."
        )


def _map_fetches(read: Callable[[str], Any], fetches: Fetches) -> Any:
    """Apply ``read`` to each name in a nest of names and handles, and keep the nest."""
    match fetches:
        case str():
            return read(fetches)
        case Output(name=name):
            return read(name)
        case dict():
            return {key: _map_fetches(read, fetch) for key, fetch in fetches.items()}
        case tuple() if hasattr(fetches, "_fields"):
            return type(fetches)(*(_map_fetches(read, fetch) for fetch in fetches))
        case list() | tuple():
            return type(fetches)(_map_fetches(read, fetch) for fetch in fetches)
        case None:
            return None
        case _:
            raise TypeError(
                f"A fetch must be a name, an Output, or a dict, list or tuple of these, got {fetches!r}. "
                "In model_fn, name a value with muster.program.name_output(name, value) and fetch that name."
            )
