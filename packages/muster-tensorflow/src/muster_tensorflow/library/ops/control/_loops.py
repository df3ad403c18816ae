"""More of TensorFlow's control flow: branches by number, and loops along an axis."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster.extend import BatchedGradientError, with_gradients
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array, is_traced
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._control import cond, map_fn
from muster_tensorflow.library.ops.control._ways import scanned
from muster_tensorflow.library.ops.random._generators import noting_draws


@operation
def switch_case(
    branch_index: ArrayLike,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str = "switch_case",
) -> Any:
    """Call the function of a number; in a step all are traced, and return arrays of the same shapes.

    Args:
        branch_index: The number, of shape ().
        branch_fns: The functions, as a list, as pairs with their numbers, or as a dict by them.
        default: Called for other numbers; None is the function of the largest number.
        name: Unused.

    Source: tensorflow/python/ops/control_flow_switch_case.py, ``switch_case``.
    """
    pairs = branch_fns.items() if isinstance(branch_fns, dict) else list(enumerate(branch_fns))
    if not isinstance(branch_fns, dict) and branch_fns and isinstance(branch_fns[0], list | tuple):
        pairs = branch_fns
    functions = dict(sorted(pairs))
    last = default or functions[max(functions)]
    number = as_array(branch_index)
    if not isinstance(number, jax.core.Tracer):
        return functions.get(int(number), last)()
    if default is None:
        del functions[max(functions)]
    return case([(number == key, each) for key, each in functions.items()], last)


@operation
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Call the function of the first condition that holds, else ``default``, else the last function.

    Source: tensorflow/python/ops/control_flow_case.py, ``case_v2``.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    chosen = default or pairs[-1][1]
    for condition, function in reversed(pairs):
        chosen = _either(condition, function, chosen)
    return chosen()


def _either(condition: Any, function: Callable[[], Any], other: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: cond(condition, function, other)


@operation
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Call ``fn(result before, element)`` along the first axis, and stack all results.

    Args:
        fn: Returns the next result, of the same structure, shapes and dtypes.
        elems: An array, or a structure of arrays of equal length.
        initializer: The result before the first call; None takes the first element, which is then a result.
        parallel_iterations: Unused.
        back_prop: Unused.
        swap_memory: Unused.
        infer_shape: Unused.
        reverse: Whether to begin with the last element.
        name: Unused.

    Source: tensorflow/python/ops/functional_ops.py, ``scan_v2``.
    """
    values = jax.tree.map(lambda each: jnp.asarray(as_array(each)), elems)
    first = initializer
    if initializer is None:
        first = jax.tree.map(lambda each: each[-1 if reverse else 0], values)
        values = jax.tree.map(lambda each: each[:-1] if reverse else each[1:], values)
    begin = start = jax.tree.map(lambda each: jnp.asarray(as_array(each)), first)

    def step(carried: Any, element: Any) -> tuple[Any, Any]:
        made = jax.tree.map(
            lambda new, old: jnp.asarray(as_array(new)).astype(old.dtype), fn(carried, element), carried
        )
        return made, made

    count = len(jax.tree.leaves(values)[0])
    if is_traced(*jax.tree.leaves((start, values))) or not count:
        results = scanned(step, start, values, reverse=reverse)[1]
    else:  # eager code stays eager: it may draw random numbers, and assign to variables
        made = []
        for place in reversed(range(count)) if reverse else range(count):
            start = step(start, jax.tree.map(lambda each, place=place: each[place], values))[0]
            made.append(start)
        made = made[::-1] if reverse else made
        results = jax.tree.map(lambda *parts: jnp.stack(parts), *made)
    if initializer is not None:
        return results

    def joined(one: Any, many: Any) -> Any:
        return jnp.concatenate([many, one[None]] if reverse else [one[None], many])

    return jax.tree.map(joined, begin, results)


def _fold(name: str, reverse: bool, what: str) -> Callable[..., Any]:
    def fold(
        fn: Callable[[Any, Any], Any],
        elems: Any,
        initializer: Any = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Any:
        results = scan(fn, elems, initializer, reverse=reverse)
        return jax.tree.map(lambda each: each[0 if reverse else -1], results)

    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = f"Call ``fn(result before, element)`` from the {what} element on; return the last result."
    return operation(fold)


foldl = _fold("foldl", False, "first")
foldr = _fold("foldr", True, "last")


@operation
def vectorized_map(
    fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Call a function for all values along the first axis at once, and stack the results.

    It may ask a tape for gradients, those of each value alone. One that draws random numbers is called for
    one value after the other, so that each has its own.
    """
    values = jax.tree.map(lambda each: jnp.asarray(as_array(each)), elems)

    def call(each: Any) -> Any:
        return jax.tree.map(lambda made: jnp.asarray(as_array(made)), fn(each))

    with noting_draws() as draws:
        try:
            made = jax.vmap(call)(values)
        except BatchedGradientError:  # in a step, whose gradients are found once it is traced: so are these
            made = jax.vmap(with_gradients(call, jax.tree.map(lambda each: each[0], values)))(values)
    return map_fn(fn, values) if draws else made
