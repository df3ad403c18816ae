"""Methods of TensorFlow's variables that are about sessions and graphs, on Keras' variables.

Some have a meaning without them; what has none says so.

Source: tensorflow/python/ops/variables.py, ``Variable``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import jax
import numpy as np

from muster import keras
from muster.data import Placeholder
from muster.extend import Initializer, current_scope, session_of_loop
from muster.program import TrainOp
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._patched_classes import ref
from muster_tensorflow.names._names import missing
from muster_tensorflow.patches import change

WITHOUT_MEANING = ("count_up_to", "create", "from_proto", "graph", "initial_value", "to_proto")
"""Methods and attributes whose absence an error explains."""


_INITIAL: ContextVar[Any] = ContextVar("muster_tensorflow_initial_values", default=None)


@contextmanager
def initial_values(values: Any) -> Iterator[None]:
    """Let an ``init_fn``, in a ``with`` block, find and change the variables of its model_fn.

    Args:
        values: What it gets as its session, with the ``pairs`` that the session of a loop has.
    """
    token = _INITIAL.set(values)
    try:
        yield
    finally:
        _INITIAL.reset(token)


def values_of_model() -> Any:
    """Return what has the values of a model_fn's variables in its hooks and init_fn; None elsewhere."""
    return None if current_scope() is not None else _INITIAL.get() or session_of_loop()


class InitializerOp(TrainOp, Initializer):
    """An operation that does nothing, since variables have values from the start."""


class AssignOp(Initializer):
    """Assigns to a variable of the model_fn, when a hook runs it.

    Args:
        path: The variable's path.
        value: Of the variable's shape; or a placeholder, whose value the hook feeds.
    """

    def __init__(self, path: str, value: Any) -> None:
        self._path = path
        self._value = value

    def run(self, feed_dict: Mapping[Any, Any] | None = None, session: object = None) -> None:
        """Assign the value.

        Args:
            feed_dict: Placeholder -> value.
            session: Unused: it is that of the hook.

        Raises:
            RuntimeError: There is no session, or parameter servers hold the variable.
            ValueError: The value is not fed, or has another shape.
        """
        value, running = self._value, values_of_model()
        if running is None:
            raise RuntimeError(
                f"{self._path} is assigned outside of the hooks of a training, which has its value."
            )
        if isinstance(value, Placeholder):
            if value not in (feed_dict or {}):
                raise ValueError(
                    f"feed_dict lacks the value of {value!r}, which is assigned to {self._path}."
                )
            value = (feed_dict or {})[value]
        running.set_variable_value(self._path, np.asarray(as_array(value)))


def assignment_of_hook(variable: Any, value: Any) -> AssignOp | None:
    """Return what assigns to a variable of the model_fn whose hooks are called now; None for any other."""
    path = _path_in_loop(variable)
    return None if path is None else AssignOp(path, value)


def _is_initialized(self: Any, name: str | None = None) -> jax.Array:
    """Return True: variables have values from the start."""
    return jax.numpy.asarray(True)


def _initialized_value(self: Any) -> jax.Array:
    """Return the value."""
    return self.value  # type: ignore[no-any-return]


def _initializer(self: Any) -> InitializerOp:
    """An operation that does nothing."""
    return InitializerOp("init")


def _handle(self: Any) -> Any:
    """The variable itself, which operations on variables take."""
    return self


def _load(self: Any, value: ArrayLike, session: Any = None) -> None:
    """Assign a value; in a hook, to the variable of the model_fn that is trained.

    Args:
        value: Of the variable's shape.
        session: Unused: that of the hook.

    Raises:
        ValueError: The value has another shape.
    """
    path = _path_in_loop(self)
    if path is None:
        self.assign(as_array(value))
    else:
        values_of_model().set_variable_value(path, np.asarray(value))


def _eval(self: Any, session: Any = None) -> Any:
    """Return the value as a NumPy array or number; in a hook, of the model_fn that is trained.

    Raises:
        TraceError: The code is traced, where values have no numbers yet.
    """
    path = _path_in_loop(self)
    return self.numpy() if path is None else values_of_model().get_variable_value(path)


def _path_in_loop(variable: Any) -> str | None:
    """Return the path of a variable of the model_fn whose hooks are called now; None for any other."""
    if (running := values_of_model()) is None:
        return None
    return next((spec.path for spec, each in running.pairs if each is variable), None)


class _Explained:
    """Raises the error that says why a name is missing.

    Args:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        raise missing("tf.Variable", self._name)


def patch() -> None:
    """Give Keras' variables the methods."""
    variable = keras.Variable
    change(variable, "is_initialized", _is_initialized)
    change(variable, "initialized_value", _initialized_value)
    change(variable, "initializer", property(_initializer))
    change(variable, "handle", property(_handle))
    change(variable, "experimental_ref", ref)
    change(variable, "load", _load)
    change(variable, "eval", _eval)
    for name in WITHOUT_MEANING:
        change(variable, name, _Explained(name))
