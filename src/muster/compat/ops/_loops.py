"""More of TensorFlow's control flow: branches by number, loops along an axis, and arrays filled in loops."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.compat.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_dtype, is_traced
from muster.compat.ops._control import cond, map_fn
from muster.compat.ops._generators import noting_draws
from muster.compat.ops._operation import operation
from muster.compat.ops._ways import scanned
from muster.program.gradients import BatchedGradientError, with_gradients


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
    start = jax.tree.map(lambda each: jnp.asarray(as_array(each)), first)

    def step(carried: Any, element: Any) -> tuple[Any, Any]:
        made = jax.tree.map(
            lambda new, old: jnp.asarray(as_array(new)).astype(old.dtype), fn(carried, element), carried
        )
        return made, made

    results = scanned(step, start, values, reverse=reverse)[1]
    if initializer is not None:
        return results

    def joined(one: Any, many: Any) -> Any:
        return jnp.concatenate([many, one[None]] if reverse else [one[None], many])

    return jax.tree.map(joined, start, results)


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


@jax.tree_util.register_pytree_node_class
class TensorArray:
    """Arrays of one shape that a loop writes and reads, one at each index.

    In ``tf.while_loop`` of a step it needs a size and ``element_shape``, or an element written before.
    `write` and `unstack` return the array that goes on.

    Args:
        dtype: The dtype of elements.
        size: How many there are.
        dynamic_size: Whether writing beyond the end makes it longer; not in a loop of a step.
        clear_after_read: Unused: elements stay.
        tensor_array_name: Unused.
        handle: Unused.
        flow: Unused.
        infer_shape: Unused.
        element_shape: The shape of elements.
        colocate_with_first_write_call: Unused.
        name: Unused.

    Source: tensorflow/python/ops/tensor_array_ops.py, ``TensorArray``.
    """

    def __init__(
        self,
        dtype: DTypeLike,
        size: ArrayLike | None = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: object = None,
        flow: object = None,
        infer_shape: bool = True,
        element_shape: Sequence[int | None] | None = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        self.dtype: Any = as_dtype(dtype)
        self.dynamic_size = bool(dynamic_size)
        self._size = 0 if size is None else int(as_array(size))
        self._values: Any = None
        if element_shape is not None and None not in tuple(element_shape):
            self._values = self._zeros(tuple(element_shape))

    @property
    def element_shape(self) -> tuple[int, ...] | None:
        """The shape of elements; None as long as it is not known."""
        return None if self._values is None else tuple(self._values.shape[1:])

    def write(self, index: ArrayLike, value: ArrayLike, name: str | None = None) -> "TensorArray":
        """Return the array with another element."""
        element, place = jnp.asarray(as_array(value)), as_array(index)
        values = self._zeros(element.shape) if self._values is None else self._values
        traced = isinstance(place, jax.core.Tracer)
        if not traced and int(place) >= len(values):
            if not self.dynamic_size:
                raise IndexError(
                    f"Tried to write to index {int(place)} but array is not resizeable and size is: "
                    f"{len(values)}."
                )
            more = jnp.zeros((int(place) + 1 - len(values), *values.shape[1:]), values.dtype)
            values = jnp.concatenate([values, more])
        return self._with(values.at[place].set(element.astype(values.dtype)))

    def append(self, value: ArrayLike) -> None:
        """Write another element behind the last, as AutoGraph's lists do (``Feature.LISTS``)."""
        made = self.write(self._size, value)
        self._size, self._values = made._size, made._values

    def read(self, index: ArrayLike, name: str | None = None) -> Array:
        """Return the element at an index."""
        place = as_array(index)
        if not isinstance(place, jax.core.Tracer) and int(place) >= self._size:
            raise IndexError(f"Tried to read from index {int(place)} but array size is: {self._size}.")
        return self._filled()[place]  # type: ignore[no-any-return]

    def stack(self, name: str | None = None) -> Array:
        """Return all elements, along a new first axis."""
        return self._filled()  # type: ignore[no-any-return]

    def concat(self, name: str | None = None) -> Array:
        """Return all elements, one after the other along their first axis."""
        values = self._filled()
        return values.reshape(-1, *values.shape[2:])  # type: ignore[no-any-return]

    def gather(self, indices: ArrayLike, name: str | None = None) -> Array:
        """Return the elements at indices, along a new first axis."""
        return self._filled()[as_array(indices)]  # type: ignore[no-any-return]

    def unstack(self, value: ArrayLike, name: str | None = None) -> "TensorArray":
        """Return the array with the parts of a value along its first axis as elements."""
        return self._with(jnp.asarray(as_array(value)).astype(jax.dtypes.canonicalize_dtype(self.dtype)))

    def scatter(self, indices: ArrayLike, value: ArrayLike, name: str | None = None) -> "TensorArray":
        """Return the array with the parts of a value at indices."""
        made = self
        for place, part in zip(np.asarray(indices), as_array(value), strict=True):
            made = made.write(int(place), part)
        return made

    def split(self, value: ArrayLike, lengths: ArrayLike, name: str | None = None) -> "TensorArray":
        """Return the array with parts of a value along its first axis as elements, of some lengths."""
        made, start = self, 0
        for place, length in enumerate(np.asarray(lengths).tolist()):
            made = made.write(place, as_array(value)[start : start + length])
            start += length
        return made

    def size(self, name: str | None = None) -> np.int32:
        """Return the number of elements."""
        return np.int32(self._size)

    def identity(self) -> "TensorArray":
        """Return the array."""
        return self

    def close(self, name: str | None = None) -> None:
        """Do nothing: memory is freed with the array."""

    def __len__(self) -> int:
        return self._size

    def tree_flatten(self) -> tuple[list[Any], Any]:
        """Return the values, and all else, for JAX."""
        return [self._values], (self.dtype, self.dynamic_size, self._size)

    @classmethod
    def tree_unflatten(cls, rest: Any, children: Any) -> "TensorArray":
        """Make the array again of what `tree_flatten` returned."""
        made = cls(rest[0], rest[2], rest[1])
        made._values = children[0]
        return made

    def _zeros(self, shape: Any) -> Any:
        return jnp.zeros((self._size, *shape), jax.dtypes.canonicalize_dtype(self.dtype))

    def _filled(self) -> Any:
        if self._values is None:
            raise ValueError("The TensorArray has no element yet: write one, or give element_shape.")
        return self._values

    def _with(self, values: Any) -> "TensorArray":
        # TensorFlow's eager array changes, and programs may leave what write returns.
        made = self if not is_traced() else TensorArray(self.dtype, dynamic_size=self.dynamic_size)
        made._size, made._values = len(values), values
        return made
