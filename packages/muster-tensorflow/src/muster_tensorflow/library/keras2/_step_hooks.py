"""Show the batch hooks of programs' callbacks the variables' present values, and keep what they assign.

While Keras trains on JAX, variables have no values: its step has the state, and ``self.model`` of a callback
gives it back. Callbacks of programs also reach a model by other names, as in ``lambda batch, logs:
print(model.get_weights())``, or reach one that shares layers with it.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change

_KINDS, _TIMES = ("train", "test", "predict"), ("begin", "end")


def _is_of_program(callback: Any, hook: str) -> bool:
    """Return whether a hook is neither Keras' nor muster's."""
    return not str(getattr(callback, hook).__module__).startswith(("keras.", "muster.", "muster_tensorflow."))


def _giving_back(original: Callable[..., None], kind: str, time: str) -> Callable[..., None]:
    """Wrap what calls a hook of all callbacks."""
    hooks = (f"on_{kind}_batch_{time}", *([f"on_batch_{time}"] if kind == "train" else []))

    @functools.wraps(original)
    def call(self: Any, batch: int, logs: Any = None) -> None:
        found = vars(self).setdefault("_hooks_of_programs", {})
        if hooks not in found:
            found[hooks] = any(_is_of_program(each, hook) for each in self.callbacks for hook in hooks)
        model = getattr(self, "_model", None)  # a list may have none, or one that is not Keras'
        if found[hooks] and isinstance(model, keras.Model):
            model.jax_state_sync()
        original(self, batch, logs)

    return call


def patch() -> None:
    """Give variables their values before the hooks of programs are called at steps."""
    kept = keras.callbacks.CallbackList
    for kind in _KINDS:
        for time in _TIMES:
            name = f"on_{kind}_batch_{time}"
            change(kept, name, _giving_back(getattr(kept, name), kind, time))
