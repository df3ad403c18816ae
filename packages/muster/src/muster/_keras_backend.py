"""Select JAX as Keras' backend; Keras' default is TensorFlow.

Keras chooses its backend once, when it is first imported, from ``KERAS_BACKEND`` or else a file in the home
directory. So ``import muster`` sets the variable, although importing should otherwise have no effects: any
later moment is too late for a program that imports Keras by itself, and Keras offers no other way. Nothing
else is imported for that.
"""

import os
import sys

# What KERAS_BACKEND was when muster changed it.
_replaced: list[str] = []


def choose_jax() -> None:
    """Let Keras choose JAX when it is imported; without effect if it is imported already.

    An import of Keras that has failed, because TensorFlow is missing, leaves modules behind that know the
    backend which it had chosen. They are dropped, so that the next import chooses anew.
    """
    if "keras" in sys.modules:
        return
    backend = os.environ.get("KERAS_BACKEND")
    if backend not in (None, "jax"):
        _replaced.append(backend)
    os.environ["KERAS_BACKEND"] = "jax"
    for name in [name for name in sys.modules if name.startswith("keras.")]:
        del sys.modules[name]


def replaced_backend() -> str | None:
    """Return the value of ``KERAS_BACKEND`` that muster has replaced; None if there was none."""
    return _replaced[0] if _replaced else None


def require_jax(backend: str) -> None:
    """Raise ImportError if Keras, which is imported now, has another backend than JAX."""
    if backend != "jax":
        raise ImportError(
            f"muster trains on JAX, but Keras was imported before muster, with the backend {backend!r}, and "
            "cannot change it any more. Write this line above the first one that imports Keras: import muster"
        )
