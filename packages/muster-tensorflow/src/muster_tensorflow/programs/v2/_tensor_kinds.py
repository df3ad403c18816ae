"""Functions of ``tf`` that test the kind of a value and the execution mode; critical sections.

Source: tensorflow/python/framework/ops.py, type_spec.py and tensorflow/python/ops/critical_section_ops.py.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from muster import keras
from muster.data import Dataset, TensorSpec, spec_of
from muster.extend import as_spec
from muster_tensorflow.library.ops.control._control import executing_eagerly
from muster_tensorflow.programs.v2._extension_type import ExtensionType

Result = TypeVar("Result")


def is_symbolic_tensor(tensor: object) -> bool:
    """Return whether a value is not known yet: that of a function that is being traced, or of a model."""
    return isinstance(tensor, jax.core.Tracer | keras.KerasTensor)


def inside_function() -> bool:
    """Return whether a function or a step is being traced."""
    return not executing_eagerly()


def get_current_name_scope() -> str:
    """Return the names of the ``with tf.name_scope`` blocks around, with a ``/`` in between."""
    return str(keras.src.backend.common.name_scope.current_path())


def type_spec_from_value(value: Any) -> Any:
    """Return the spec of an array, a variable, a ragged or sparse tensor, or an `ExtensionType`.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(value, TensorSpec):
        return value
    if isinstance(value, ExtensionType):
        return value.Spec.from_value(value)
    if isinstance(value, Dataset) or not hasattr(value, "dtype"):
        raise TypeError(f"Could not build a TypeSpec for {value!r} of type {type(value).__name__}.")
    value = value.value if isinstance(value, keras.Variable) else value
    return as_spec(value) if isinstance(value, jax.Array) else spec_of(value)


class CriticalSection:
    """Functions in it run one at a time.

    Args:
        name: Unused, as all below.
        shared_name: Unused.
        critical_section_def: Unused.
        import_scope: Unused.
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: None = None,
        import_scope: None = None,
    ) -> None:
        self._lock = threading.Lock()

    def execute(
        self, fn: Callable[[], Result], exclusive_resource_access: bool = True, name: str | None = None
    ) -> Result:
        """Call a function; in a step, where all is in order, it is traced."""
        with self._lock:
            return fn()
