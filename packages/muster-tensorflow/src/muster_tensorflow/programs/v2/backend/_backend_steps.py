"""Functions of Keras 2's ``backend`` that call a function for each element or time.

Source: keras/src/backend.py of Keras 2.15.
"""

from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.control import _loops
from muster_tensorflow.library.ops.control._control import map_fn as map_of_elements


def rnn(
    step_function: Callable[[Any, Any], tuple[Any, Any]],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Call a function for each time of sequences, with the states that it returned for the time before.

    Args:
        step_function: Takes an array of shape (batch, …) and a list of states, to which ``constants`` are
            added, and returns an output and new states.
        inputs: Shape (batch, times, …), or a structure of such arrays.
        initial_states: A list of arrays of shape (batch, …).
        go_backwards: Whether to begin with the last time.
        mask: Shape (batch, times): where it is False, states and the output are those of the time before.
        constants: A list of arrays for each call.
        unroll: Whether the steps become one long program.
        input_length: Unused: the shape says it.
        time_major: Whether times are the first axis, of inputs and outputs.
        zero_output_for_mask: Whether outputs are 0 where the mask is False.
        return_all_outputs: Whether to return more than the last output.

    Returns:
        The last output, all outputs, and the last states.
    """
    return keras.src.backend.rnn(  # type: ignore[no-any-return]  # public only in Keras 2
        step_function,
        inputs,
        initial_states,
        go_backwards,
        mask,
        constants,
        unroll,
        input_length,
        time_major,
        zero_output_for_mask,
        return_all_outputs,
    )


def map_fn(fn: Callable[[Any], Any], elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """Call a function for each element, and stack the results."""
    return map_of_elements(fn, elems, dtype)


def foldl(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Call ``fn(result before, element)`` from the first element on; return the last result."""
    return _loops.foldl(fn, elems, initializer)


def foldr(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Call ``fn(result before, element)`` from the last element on; return the last result."""
    return _loops.foldr(fn, elems, initializer)
