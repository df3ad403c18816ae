"""Select JAX as Keras' backend; Keras' default is TensorFlow.

Keras chooses its backend once, when it is first imported, from ``KERAS_BACKEND`` or else a file in the home
directory. So ``import muster`` sets the variable where nobody has, although importing should otherwise have
no effects: any later moment is too late for a program that imports Keras by itself, and Keras offers no other
way. Nothing else is imported for that.
"""

import os
import sys

_BACKEND = "KERAS_BACKEND"


def choose_jax() -> None:
    """Let Keras choose JAX when it is imported, unless the variable names a backend.

    Without effect if Keras is imported already. An import of Keras that has failed, because TensorFlow is
    missing, leaves modules behind that know the backend which it had chosen. They are dropped, so that the
    next import chooses anew.
    """
    if "keras" in sys.modules:
        return
    if not os.environ.get(_BACKEND):
        os.environ[_BACKEND] = "jax"
    for name in [name for name in sys.modules if name.startswith("keras.")]:
        del sys.modules[name]


def take_jax() -> str | None:
    """Let Keras, which muster imports now, choose JAX; return another backend that the variable has named."""
    backend = os.environ.get(_BACKEND)
    if "keras" in sys.modules or backend in (None, "", "jax"):
        choose_jax()
        return None
    os.environ[_BACKEND] = "jax"
    choose_jax()
    return backend


def require_jax(backend: str) -> None:
    """Raise ImportError if Keras, which is imported now, has another backend than JAX."""
    if backend == "jax":
        return
    if os.environ.get(_BACKEND) == backend:
        how = f"Set the environment variable {_BACKEND} to 'jax', or leave it unset"
    else:
        how = "Write this line above the first one that imports Keras: import muster"
    raise ImportError(
        f"muster trains on JAX, but Keras was imported before muster, with the backend {backend!r}, and "
        f"cannot change it any more. {how}"
    )
