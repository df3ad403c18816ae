"""Loops over a dataset in the code of a ``tf.function``, as in ``for batch in dataset``.

TensorFlow compiles the loop's body once, and reads the dataset anew in every call. Here a trace goes through
the elements one by one, and they become constants of the program. That is well for a few that are always the
same. If they are many, or shuffled, the function runs uncompiled, on values.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax

from muster.compat.ops._needs_values import NeedsValuesError
from muster.program.variables import current_scope

_MOST = 16  # elements that a trace goes through

_IN_FUNCTION: ContextVar[bool] = ContextVar("muster_tensorflow_function_is_traced", default=False)


class LongLoopError(NeedsValuesError):
    """A loop over a dataset cannot be traced element by element: it is too long, or differs in each pass."""


@contextlib.contextmanager
def long_loops_refused() -> Iterator[None]:
    """Refuse long loops over datasets in what is traced meanwhile; not in code of replicas."""
    token = _IN_FUNCTION.set(True)
    try:
        yield
    finally:
        _IN_FUNCTION.reset(token)


def refusing(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``Dataset.__iter__``.

    Raises:
        LongLoopError: A function is traced, and the dataset has too many elements, nobody knows how many,
            or others in the next pass.
    """

    @functools.wraps(original)
    def iterate(self: Any) -> Any:
        scope = current_scope() if _IN_FUNCTION.get() else None
        if scope is None or scope.replicas is not None:
            return original(self)
        if not _is_short(self):
            raise LongLoopError(f"A loop over more than {_MOST} elements of a dataset cannot be compiled.")
        with jax.ensure_compile_time_eval():  # what the dataset computes is no part of the function
            if not self.is_constant:
                raise LongLoopError(
                    "A loop over a dataset with other elements in each pass cannot be compiled."
                )
            return iter(list(original(self)))

    return iterate


def _is_short(dataset: Any) -> bool:
    try:
        return len(dataset) <= _MOST
    except TypeError:  # the number is unknown, or there is no end
        return False
