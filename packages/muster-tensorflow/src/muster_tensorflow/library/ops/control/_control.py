"""TensorFlow's control flow, and Python functions in input functions."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import RaggedTensor, RaggedTensorSpec
from muster.extend import FunctionScope, current_scope, outside_of_step
from muster.program import TrainOp
from muster_tensorflow.library.ops._arrays import ArrayLike, array_module, as_array, is_traced
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.arrays._shape import stack
from muster_tensorflow.library.ops.arrays._tensor_array import TensorArray
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError
from muster_tensorflow.library.ops.control._rounds import note_loop, rounds_of
from muster_tensorflow.library.ops.control._ways import aside, looped, scanned, taken
from muster_tensorflow.library.ops.ragged._ragged_values import stack_rows


def executing_eagerly() -> bool:
    """Return whether operations compute at once, rather than in a step or a function that is being traced."""
    return not is_traced()


@contextmanager
def init_scope() -> Iterator[None]:
    """Compute at once in a ``with`` block, also where a function is being traced, what does not depend on it.

    So what the first call of a function creates there, such as constants and variables, is the same in all
    others, and what it assigns to variables it assigns once.

    Source: tensorflow/python/framework/ops.py, ``init_scope``.
    """
    scope = current_scope()
    with jax.ensure_compile_time_eval():
        # A model_fn makes its variables in every step: there they stay the step's.
        with outside_of_step() if isinstance(scope, FunctionScope) else nullcontext():
            yield


@operation
def cond(
    pred: ArrayLike, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
) -> Any:
    """Call one of two functions; of a value that a step computes, in the compiled program.

    Args:
        pred: A boolean of shape ().
        true_fn: Called if it is True. If the step computes it, both are traced: they return arrays of the
            same shapes.
        false_fn: Called if it is False.
        name: Unused.

    Source: tensorflow/python/ops/cond.py, ``cond``.
    """
    if not isinstance(pred, jax.core.Tracer):
        return true_fn() if bool(as_array(pred)) else false_fn()
    return taken(pred, lambda: _as_results(true_fn()), lambda: _as_results(false_fn()))


@operation
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: object = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: int | None = None,
    name: str | None = None,
) -> Any:
    """Call ``body`` as long as ``cond`` says so, and return the last values; in a step, in the program.

    JAX gives gradients of a loop only if it counts how often it goes round by numbers that are known when it
    is traced; ``tf.function`` runs uncompiled otherwise.

    Args:
        cond: Takes the values, returns a boolean of shape ().
        body: Takes the values, returns the next ones, of the same shapes and dtypes.
        loop_vars: The first values.
        shape_invariants: Unused: shapes stay, or ``tf.function`` runs uncompiled.
        parallel_iterations: Unused.
        back_prop: Unused.
        swap_memory: Unused.
        maximum_iterations: The most calls of ``body``; None for any number.
        name: Unused.

    Source: tensorflow/python/ops/while_loop.py, ``while_loop_v2``.
    """
    most = np.iinfo(np.int32).max if maximum_iterations is None else maximum_iterations

    def goes_on(state: tuple[Any, Any]) -> Any:
        done, values = state
        return array_module(done).logical_and(done < most, cond(*values))

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        done, values = state
        made = body(*values)
        return done + 1, _as_arrays(made if isinstance(made, list | tuple) else [made], values)

    state = (np.int32(0), [jax.tree.map(as_array, each) for each in loop_vars])

    def go_on(after: tuple[Any, ...]) -> None:
        nonlocal state
        state = (after[0], after[1])

    if is_traced(*jax.tree.leaves(state)):
        state = _with_elements(state, step)
        rounds = rounds_of(goes_on, step, state)
        state = _as_jax(state)
        if rounds is not None:
            return scanned(lambda before, _: (_as_jax(step(before)), None), state, None, length=rounds)[0][1]
        note_loop("tf.while_loop")
        looped(lambda: goes_on(state), lambda: go_on(step(state)), lambda: state, go_on)
    else:
        while goes_on(state):
            state = step(state)
    return state[1]


def _with_elements(state: Any, step: Callable[[Any], Any]) -> Any:
    """Give each array of elements in a loop's values that has none yet zeros, of the shape that it gets."""

    def waits(leaf: object) -> bool:
        return isinstance(leaf, TensorArray) and leaf.element_shape is None

    if not any(map(waits, jax.tree.leaves(state, is_leaf=waits))):
        return state
    with aside():
        after = jax.eval_shape(lambda: step(_as_jax(state)))
    return jax.tree.map(
        lambda one, other: one.with_zeros(other.element_shape) if waits(one) else one,
        *(state, after),
        is_leaf=lambda leaf: isinstance(leaf, TensorArray),
    )


def _as_arrays(values: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Convert the values of a loop, numbers of Python to the dtypes that the values before had."""
    return [
        jax.tree.map(
            lambda new, old: as_array(new, old.dtype if isinstance(new, int | float) else None), *pair
        )
        for pair in zip(values, like, strict=True)
    ]


@operation
def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: object = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: object = None,
) -> Any:
    """Call a function for each value along the first axis, and stack the results.

    Args:
        fn: Takes an element, and returns an array or a structure of arrays, of one shape for all but those
            that the signature says are rows of ragged tensors.
        elems: An array, or a structure of arrays of equal length.
        dtype: Another name of ``fn_output_signature``.
        parallel_iterations: Unused.
        back_prop: Unused.
        swap_memory: Unused.
        infer_shape: Unused.
        name: Unused.
        fn_output_signature: A `RaggedTensorSpec` in the place of each result whose shape differs. Of others
            the results say the dtype.

    Raises:
        ValueError: There are no elements, and nothing is being traced.
        TraceError: Results are rows of ragged tensors, and something is being traced; ``tf.function`` runs
            uncompiled then.

    Source: tensorflow/python/ops/map_fn.py, ``map_fn_v2``.
    """
    arrays = jax.tree.map(as_array, elems)
    leaves = jax.tree.leaves(arrays)
    signature = dtype if fn_output_signature is None else fn_output_signature
    ragged = any(isinstance(each, RaggedTensorSpec) for each in jax.tree.leaves(signature))
    if is_traced(*leaves):
        if ragged:
            raise NeedsValuesError(
                "tf.map_fn makes a ragged tensor, whose row lengths are fixed when a function is traced. Do "
                "it in the input function."
            )
        return scanned(lambda _, element: (None, _as_jax(fn(element))), None, _as_jax(arrays))[1]
    if not leaves or len(leaves[0]) == 0:
        raise ValueError("tf.map_fn needs at least one element, to know what the function returns.")
    results = [fn(jax.tree.map(lambda leaf, i=i: leaf[i], arrays)) for i in range(len(leaves[0]))]
    if ragged:
        return jax.tree.map(_stacked, signature, *results)
    return jax.tree.map(lambda *parts: stack(parts), *results)


def _stacked(spec: Any, *parts: Any) -> Any:
    """Stack results as a spec says: as rows of a ragged tensor, or as an array."""
    if not isinstance(spec, RaggedTensorSpec):
        return stack(parts)
    return stack_rows([RaggedTensor.from_tensor(each) if np.ndim(each) > 1 else each for each in parts])


def _as_jax(values: Any) -> Any:
    return jax.tree.map(lambda value: jnp.asarray(as_array(value)), values)


def _as_results(values: Any) -> Any:
    """Return what a way returns as arrays: of operations for their effects, nothing."""
    return _as_jax(jax.tree.map(lambda value: None if isinstance(value, TrainOp) else value, values))


def executing_eagerly_outside_functions() -> bool:
    """Return True: programs run eagerly here but for what they compile."""
    return True
