"""Save and restore the states of hooks in checkpoints, by their ``get_state`` and ``set_state``."""

import base64
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster._errors import CheckpointError
from muster.checkpoint import Checkpoint
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.session._session import Coordinator, Session
from muster.program import NotPlainError, decode, encode

_KEY = "hooks"


def keeps_state(hook: Any) -> bool:
    """Return whether a hook has a state that checkpoints keep.

    Raises:
        TypeError: It has only one of the methods ``get_state`` and ``set_state``.
    """
    has = [name for name in ("get_state", "set_state") if hasattr(hook, name)]
    if len(has) == 1:
        raise TypeError(
            f"The hook {type(hook).__qualname__} has {has[0]} only. Give it both get_state(), which returns "
            "what checkpoints keep, and set_state(state), which takes it when training goes on."
        )
    return bool(has)


class HookStates(SessionRunHook):
    """Keeps the states of a training's hooks, and gives them back before their ``after_create_session``.

    Args:
        hooks: The hooks of this worker, in order. They are told apart by their classes and this order.
        checkpoint: Where training goes on; None if it begins.
    """

    def __init__(self, hooks: Sequence[SessionRunHook], checkpoint: Checkpoint | None) -> None:
        counts: Counter[str] = Counter()
        self._hooks: dict[str, Any] = {}
        for hook in filter(keeps_state, hooks):
            name = type(hook).__qualname__
            counts[name] += 1
            self._hooks[name if counts[name] == 1 else f"{name} {counts[name]}"] = hook
        self._path = "" if checkpoint is None else checkpoint.path
        self._saved: dict[str, Any] = {} if checkpoint is None else checkpoint.metadata.get(_KEY, {})

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Give the hooks their states.

        Raises:
            CheckpointError: A hook does not take its state.
        """
        for name, hook in self._hooks.items():
            if name not in self._saved:
                continue
            state = self._saved[name]
            try:
                hook.set_state(decode(state["state"], [_array(*each) for each in state["arrays"]]))
            except Exception as exc:  # the user's code
                raise CheckpointError(
                    f"The hook {name} does not take its state of {self._path}, {type(exc).__name__}: {exc}. "
                    "Let set_state take what get_state has returned; to begin anew, give the hook's class "
                    "another name."
                ) from exc

    def steps_until_due(self, session: Session) -> int | None:
        """Return None: runs may be of any length."""
        return None

    def save(self) -> dict[str, Any]:
        """Return the states as metadata of a checkpoint.

        Raises:
            TypeError: A hook's ``get_state`` returned what cannot be kept.
        """
        return {_KEY: {name: _state(name, hook) for name, hook in self._hooks.items()}} if self._hooks else {}


def _state(name: str, hook: Any) -> dict[str, Any]:
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        found = encode(hook.get_state(), arrays)
    except NotPlainError as exc:
        raise TypeError(
            f"{name}.get_state returned what a checkpoint cannot keep, {exc}. Return numbers, texts, arrays, "
            "and lists, tuples and dicts of them."
        ) from exc
    texts = [
        (each.dtype.name, list(each.shape), base64.b64encode(each.tobytes()).decode()) for each in arrays
    ]
    return {"state": found, "arrays": texts}


def _array(dtype: str, shape: list[int], text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), dtype_named(dtype)).reshape(shape)
