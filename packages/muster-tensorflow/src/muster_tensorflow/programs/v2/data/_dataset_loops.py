"""Loops over a dataset, ``for batch in dataset``, in the code of a ``tf.function`` or of ``strategy.run``.

TensorFlow compiles the loop's body once, and reads the dataset anew in every call. Here a trace goes through
the elements one by one, and they become constants of the program. That is well for a few that are always the
same. If they are many, or shuffled, the code runs uncompiled, on values, or cannot run.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from muster.data import Dataset
from muster.extend import FunctionScope, current_scope
from muster_tensorflow.library.ops._eager_values import numpy_elements, shown_count
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError
from muster_tensorflow.patches import wrap

_MOST = 16  # elements that a trace goes through


class DatasetLoopError(NeedsValuesError):
    """A loop over a dataset cannot be traced element by element: it is too long, or differs in each pass."""


def refusing(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``Dataset.__iter__``.

    Raises:
        DatasetLoopError: A function is traced, and the dataset has too many elements, nobody knows how many,
            or others in the next pass.
    """

    @functools.wraps(original)
    def iterate(self: Any) -> Any:
        if type(current_scope()) is not FunctionScope:  # nothing is traced, or a model_fn
            return original(self)
        with jax.ensure_compile_time_eval():  # what the dataset computes is no part of the function
            if not _is_short(self) or not self.is_constant:
                raise DatasetLoopError(
                    f"A loop over a dataset is compiled for up to {_MOST} elements that are the same in each "
                    "pass; it would give the same ones in every call. Read the dataset outside of the "
                    "compiled code, and pass it the batches."
                )
            return iter(list(original(self)))

    return iterate


def _is_short(dataset: Any) -> bool:
    try:
        return len(dataset) <= _MOST
    except TypeError:  # the number is unknown, or there is no end
        return False


def patch() -> None:
    """Let code that is traced loop over short datasets alone, and eager code see TensorFlow's values."""
    wrap(Dataset, "__iter__", refusing)
    wrap(Dataset, "as_numpy_iterator", numpy_elements)
    wrap(Dataset, "cardinality", shown_count)
