"""``tf.TensorArray``: arrays that loops fill."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_dtype, is_traced


@jax.tree_util.register_pytree_node_class
class TensorArray:
    """Arrays of one shape that a loop writes and reads, one at each index.

    In ``tf.while_loop`` of a step it needs a size.
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

    def with_zeros(self, element_shape: Sequence[int]) -> "TensorArray":
        """Return the array with zeros of a shape for elements."""
        made = TensorArray(self.dtype, self._size, self.dynamic_size)
        made._values = self._zeros(tuple(element_shape))
        return made

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
