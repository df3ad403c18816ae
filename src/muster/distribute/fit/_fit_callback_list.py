"""Who is called for each step of ``fit``: only callbacks that have a part in steps."""

import contextlib
import math
import time
from typing import Any

import jax
import numpy as np

from muster._keras import keras


def called_by(model: Any, callbacks: list[Any], given: dict[str, Any], *, trains: bool) -> Any:
    """What Keras is to call: the callbacks, or if none of them minds steps, a list that spares it the steps.

    Args:
        model: Whose ``fit``, ``evaluate`` or ``predict`` runs.
        callbacks: Of this worker.
        given: The arguments of that method.
        trains: Whether it is ``fit``.
    """
    if any(map(_minds_steps, callbacks)):
        return callbacks
    try:
        steps = _steps_of(given, given.get("steps_per_epoch" if trains else "steps"))
    except LookupError:
        return callbacks
    verbose = given.get("verbose", "auto")
    return Sparing(
        callbacks,
        model,
        {"verbose": verbose, "epochs": given.get("epochs", 1), "steps": steps},
        add_history=trains,
        add_progbar=verbose != 0,
    )


_STEP_HOOKS = [
    f"on_{what}batch_{when}" for what in ("", "train_", "test_", "predict_") for when in ("begin", "end")
]


def _minds_steps(callback: Any) -> bool:
    """Whether a callback has a part in steps, rather than in epochs and runs only."""
    if type(callback) is keras.callbacks.ProgbarLogger:
        return False  # it shows a step now and then
    return any(
        getattr(getattr(callback, hook), "__func__", None) is not getattr(keras.callbacks.Callback, hook)
        for hook in _STEP_HOOKS
    )


def _steps_of(given: dict[str, Any], per_epoch: int | None) -> int | None:
    """How many batches Keras finds in an epoch; None if it does not know before it has read them.

    Raises:
        LookupError: That is not plain to see.
    """
    if keras.config.max_epochs() is not None or keras.config.max_steps_per_epoch() is not None:
        raise LookupError("Keras has limits of its own")
    x = given.get("x")
    if per_epoch:
        return per_epoch
    if hasattr(x, "__next__"):
        return None
    if isinstance(x, keras.utils.PyDataset):
        return x.num_batches  # type: ignore[no-any-return]
    leaves = jax.tree.leaves(x)
    if not leaves or not all(isinstance(leaf, np.ndarray | jax.Array) and leaf.ndim for leaf in leaves):
        raise LookupError("neither arrays nor a dataset")
    rows = len(leaves[0])
    part = given.get("validation_split")
    if part and given.get("validation_data") is None:
        if not 0.0 < part < 1.0:
            raise LookupError("no part of the rows")
        rows = math.floor(rows * (1.0 - part))
    return math.ceil(rows / (given.get("batch_size") or 32))


class Sparing(keras.callbacks.CallbackList):  # type: ignore[misc]
    """Callbacks of which none minds steps: a progress bar, at most, shows one now and then, and the last.

    Keras' own list hands the results of every step to a thread, which waits for them. That takes longer than
    all else that Python does for a step.

    Args:
        callbacks: To call.
        model: For ``tell``, which is called when Keras has built it and looked at the data.
        params: Likewise.
        added: Which callbacks Keras adds.
    """

    _INTERVAL = 0.05  # seconds; as Keras' progress bar has it

    def __init__(self, callbacks: list[Any], model: Any, params: dict[str, Any], **added: bool) -> None:
        super().__init__(callbacks, **added)
        self._untold: tuple[Any, dict[str, Any]] | None = (model, params)
        self._bars = [each for each in self.callbacks if isinstance(each, keras.callbacks.ProgbarLogger)]
        self._spares = True
        self._next_at = 0.0
        self._kept: tuple[str, int, Any] | None = None

    def tell(self) -> None:
        """Tell the callbacks of the model and the run, once."""
        if self._untold is not None:
            (model, params), self._untold = self._untold, None
            self.set_model(model)
            self.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        self._ask()

    def on_test_begin(self, logs: Any = None) -> None:
        self._show_last()  # of the epoch that validation is a part of
        super().on_test_begin(logs)
        self._ask()

    def on_predict_begin(self, logs: Any = None) -> None:
        super().on_predict_begin(logs)
        self._ask()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._ask()
        self._next_at = 0.0  # the bar measures time from an epoch's first step

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
        if not self._spares:
            super().on_train_batch_begin(batch, logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self._spares:
            super().on_test_batch_begin(batch, logs)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self._spares:
            super().on_predict_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._spares:
            self._keep("on_train_batch_end", batch, logs)
        else:
            super().on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._spares:
            self._keep("on_test_batch_end", batch, logs)
        else:
            super().on_test_batch_end(batch, logs)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._spares:
            self._keep("on_predict_batch_end", batch, None)
        else:
            super().on_predict_batch_end(batch, logs)

    def _ask(self) -> None:
        """See whether a callback has made up its mind, and minds steps from now on."""
        self._spares = not any(map(_minds_steps, self.callbacks))

    def _keep(self, hook: str, batch: int, logs: Any) -> None:
        """Show the step before if it is time to; this one may turn out to be the last.

        So what is waited for are the results of a step after which another one was dispatched.
        """
        if not self._bars:
            return
        now = time.monotonic()
        if now >= self._next_at and self._kept is not None:
            self._next_at = now + self._INTERVAL
            self._show_last()
        self._kept = hook, batch, logs

    def _show_last(self) -> None:
        if self._kept is not None:
            (hook, batch, logs), self._kept = self._kept, None
            for bar in self._bars:
                getattr(bar, hook)(batch, _numbers(logs))


def _numbers(logs: Any) -> dict[str, Any]:
    """Logs as callbacks are given them: numbers of Python by their names, without groups."""
    found: dict[str, Any] = {}
    for name, value in sorted((logs or {}).items()):
        if isinstance(value, dict):
            found |= _numbers(value)
        else:
            found[name] = np.asarray(value) if isinstance(value, jax.Array) else value
            with contextlib.suppress(TypeError, ValueError):  # it is no number, and stays what it is
                found[name] = float(found[name])
    return found
