"""A faster list of Keras callbacks: skipped in steps if no callback defines batch methods."""

import contextlib
import math
import time
from typing import Any

import jax
import numpy as np

from muster._keras import keras


def called_by(
    model: keras.Model, callbacks: list[keras.callbacks.Callback], arguments: dict[str, Any], *, trains: bool
) -> "list[keras.callbacks.Callback] | EpochCallbacks":
    """Return the callbacks; if none of them has a hook for steps, as a list that is not called at steps.

    Args:
        model: The model whose ``fit``, ``evaluate`` or ``predict`` runs.
        callbacks: The callbacks of this worker.
        arguments: The arguments of that method.
        trains: Whether the method is ``fit``.
    """
    if any(map(_has_step_hooks, callbacks)):
        return callbacks
    try:
        steps = _steps_of(arguments, arguments.get("steps_per_epoch" if trains else "steps"))
    except LookupError:
        return callbacks
    verbose = arguments.get("verbose", "auto")
    return EpochCallbacks(
        callbacks,
        model,
        {"verbose": verbose, "epochs": arguments.get("epochs", 1), "steps": steps},
        add_history=trains,
        add_progbar=verbose != 0,
    )


_STEP_HOOKS = [
    f"on_{what}batch_{when}" for what in ("", "train_", "test_", "predict_") for when in ("begin", "end")
]


def _has_step_hooks(callback: keras.callbacks.Callback) -> bool:
    """Return whether a callback has hooks for steps, and not for epochs and runs only."""
    if type(callback) is keras.callbacks.ProgbarLogger:
        return False  # it need not show every step
    return any(
        getattr(getattr(callback, hook), "__func__", None) is not getattr(keras.callbacks.Callback, hook)
        for hook in _STEP_HOOKS
    )


def _steps_of(arguments: dict[str, Any], per_epoch: int | None) -> int | None:
    """Return the number of batches in an epoch; None if Keras learns it only by reading them.

    Raises:
        LookupError: The number is not known here.
    """
    if keras.config.max_epochs() is not None or keras.config.max_steps_per_epoch() is not None:
        raise LookupError("Keras has limits of its own")
    x = arguments.get("x")
    if per_epoch:
        return per_epoch
    if isinstance(x, keras.utils.PyDataset):
        return x.num_batches  # type: ignore[no-any-return]
    if hasattr(x, "__next__"):
        return None
    leaves = jax.tree.leaves(x)
    if not leaves or not all(isinstance(leaf, np.ndarray | jax.Array) and leaf.ndim for leaf in leaves):
        raise LookupError("neither arrays nor a dataset")
    rows = len(leaves[0])
    part = arguments.get("validation_split")
    if part and arguments.get("validation_data") is None:
        if not 0.0 < part < 1.0:
            raise LookupError("no part of the rows")
        rows = math.floor(rows * (1.0 - part))
    return math.ceil(rows / (arguments.get("batch_size") or 32))


class EpochCallbacks(keras.callbacks.CallbackList):  # type: ignore[misc]
    """Keras' ``CallbackList`` for callbacks that have no hooks for steps, which it does not call at steps.

    Only a progress bar is shown a step about every 50 ms, and the last one. Keras' own list passes the
    results of every step to a thread, which waits for them. That takes longer than all else that Python does
    for a step.

    Args:
        callbacks: The callbacks.
        model: Passed to the callbacks by ``attach``, once Keras has built it and looked at the data.
        params: The parameters of the run, passed to the callbacks by ``attach``.
        added: Keras' ``add_history`` and ``add_progbar``.

    Attributes:
        skips_steps: Whether no callback has hooks for steps.
        reached: The number of the last batch of the steps that were begun, if Keras counts fewer.
    """

    _INTERVAL = 0.05  # seconds; as Keras' progress bar has it

    def __init__(self, callbacks: list[Any], model: Any, params: dict[str, Any], **added: bool) -> None:
        super().__init__(callbacks, **added)
        self._unattached: tuple[Any, dict[str, Any]] | None = (model, params)
        self._bars = [each for each in self.callbacks if isinstance(each, keras.callbacks.ProgbarLogger)]
        self.skips_steps = True
        self.reached = 0
        self._next_at = 0.0
        self._pending: tuple[str, int, Any] | None = None

    def attach(self) -> None:
        """Pass the model and the run's parameters to the callbacks, once."""
        if self._unattached is not None:
            (model, params), self._unattached = self._unattached, None
            self.set_model(model)
            self.set_params(params)

    def on_test_begin(self, logs: Any = None) -> None:
        self._show_last()  # of the epoch that validation is a part of
        self.reached = 0
        super().on_test_begin(logs)
        self._look_for_hooks()

    def on_predict_begin(self, logs: Any = None) -> None:
        super().on_predict_begin(logs)
        self._look_for_hooks()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._look_for_hooks()
        self.reached, self._next_at = 0, 0.0  # the bar measures time from an epoch's first step

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._show_last()
        super().on_epoch_end(epoch, logs)

    def on_test_end(self, logs: Any = None) -> None:
        self._show_last()
        super().on_test_end(logs)

    def on_predict_end(self, logs: Any = None) -> None:
        self._show_last()
        super().on_predict_end(logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.skips_steps:
            super().on_train_batch_begin(batch, logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.skips_steps:
            super().on_test_batch_begin(batch, logs)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.skips_steps:
            super().on_predict_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.skips_steps:
            self.keep("on_train_batch_end", batch, logs)
        else:
            super().on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.skips_steps:
            self.keep("on_test_batch_end", batch, logs)
        else:
            super().on_test_batch_end(batch, logs)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.skips_steps:
            self.keep("on_predict_batch_end", batch, None)
        else:
            super().on_predict_batch_end(batch, logs)

    def _look_for_hooks(self) -> None:
        """Check whether a callback has been given a hook for steps since."""
        self.skips_steps = not any(map(_has_step_hooks, self.callbacks))

    def keep(self, hook: str, batch: int, logs: Any) -> None:
        """Keep a step, and show the one before if it is due.

        So the results that are waited for are those of a step after which another one was dispatched.
        """
        if not self._bars:
            return
        now = time.monotonic()
        if now >= self._next_at and self._pending is not None:
            self._next_at = now + self._INTERVAL
            self._show_last()
        self._pending = hook, max(batch, self.reached), logs

    def _show_last(self) -> None:
        if self._pending is not None:
            (hook, batch, logs), self._pending = self._pending, None
            for bar in self._bars:
                getattr(bar, hook)(batch, _numbers(logs))


def _numbers(logs: Any) -> dict[str, Any]:
    """Convert logs as Keras does for callbacks: to Python numbers by name, without nesting."""
    found: dict[str, Any] = {}
    for name, value in sorted((logs or {}).items()):
        if isinstance(value, dict):
            found |= _numbers(value)
        else:
            found[name] = np.asarray(value) if isinstance(value, jax.Array) else value
            with contextlib.suppress(TypeError, ValueError):  # it is not a number, and stays as it is
                found[name] = float(found[name])
    return found
