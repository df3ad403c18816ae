"""Pass text unchanged to a program's own layers and models; Keras would convert it to arrays.

``_text_models.py`` patches Keras by this. Tried on keras 3.15.1: ``test_text_in_own_calls.py`` in
``tests/v2`` fails when what is used here changes.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.data import replaced
from muster.program import StandIn
from muster_tensorflow.library.ops._eager_values import shown_result
from muster_tensorflow.library.ops.arrays._shape import convert_to_tensor


def passing_text(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__call__``: a ``call`` of the program's own may get text, in eager code and in steps."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and _holds_text(args[0]):
            self._convert_input_args, self._allow_non_tensor_positional_args = False, True
            # The call itself builds the layers: Keras would try it on symbolic tensors.
            self.built = self.built or keras.src.utils.python_utils.is_default(self.build)
            if type(args[0]) in _OPAQUE:  # of text and numbers, which Keras refuses where it looks into it
                args = (_OPAQUE[type(args[0])](args[0]), *args[1:])
        return original(self, *args, **kwargs)

    return call


def text_tensors(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``keras.ops.convert_to_tensor``: of text it makes what ``tf.constant`` does."""

    @functools.wraps(original)
    def convert(x: Any, *args: Any, **kwargs: Any) -> Any:
        return shown_result(convert_to_tensor(x)) if _holds_text(x) else original(x, *args, **kwargs)

    return convert


class _Dict(dict[Any, Any]):
    """A dict that Keras takes for a single value."""


class _List(list[Any]):
    """A list that Keras takes for a single value."""


class _Tuple(tuple[Any, ...]):
    """A tuple that Keras takes for a single value."""


_OPAQUE: dict[type, Callable[[Any], Any]] = {dict: _Dict, list: _List, tuple: _Tuple}


def holds_text_of_steps(inputs: Any) -> bool:
    """Return whether inputs have text of a batch for which a step is traced."""
    found: list[Any] = []
    replaced(inputs, StandIn, found.append)
    return bool(found)


def _holds_text(inputs: Any) -> bool:
    if isinstance(inputs, jax.Array | keras.KerasTensor):
        return False
    for each in jax.tree.leaves(inputs):
        if isinstance(each, StandIn):
            return True
        value = (
            each.flat[0] if isinstance(each, np.ndarray) and each.dtype.kind in "USO" and each.size else each
        )
        if isinstance(value, str | bytes):
            return True
    return False
