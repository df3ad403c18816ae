"""Reset the dropout masks of recurrent cells that a program calls step by step, without an ``RNN`` layer.

A cell keeps what it drops until a layer resets it, so that all steps drop the same. Without a layer it keeps
that for the trace that has drawn it, as Keras 2's do for a graph: in the next one it is no value.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change


def _of_this_trace(original: Callable[[Any, Any], Any], kept: str) -> Callable[[Any, Any], Any]:
    """Wrap a method that returns a mask, which it keeps as an attribute.

    Source: keras/src/layers/rnn/dropout_rnn_cell_mixin.py of Keras 2.15, whose cache is one of graphs.
    """
    place = f"{kept}_place"

    @functools.wraps(original)
    def mask(self: Any, step_input: Any) -> Any:
        scope = keras.src.backend.common.stateless_scope.get_stateless_scope()
        drawn = vars(self).get(place, _nowhere)
        if drawn is not _nowhere if scope is None else drawn() is not scope:
            object.__setattr__(self, kept, None)
        if getattr(self, kept, None) is None:
            object.__setattr__(self, place, weakref.ref(scope) if scope is not None else _nowhere)
        return original(self, step_input)

    return mask


def _nowhere() -> None:
    """Stand for the reference to a scope where there is none: in eager code."""


def patch() -> None:
    """Let cells draw anew in each trace."""
    cell = keras.src.layers.rnn.dropout_rnn_cell.DropoutRNNCell
    change(cell, "get_dropout_mask", _of_this_trace(cell.get_dropout_mask, "_dropout_mask"))
    change(
        cell,
        "get_recurrent_dropout_mask",
        _of_this_trace(cell.get_recurrent_dropout_mask, "_recurrent_dropout_mask"),
    )
