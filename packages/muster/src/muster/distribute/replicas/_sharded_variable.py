"""A variable whose rows lie in several variables."""

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._keras import keras
from muster._row_ids import NO_ROW
from muster.program import IndexedSlices
from muster.program.variables import storage_of, together, wrap_in_scopes
from muster.program.variables.keras_internals import track_variable


def _scatter(method: str) -> Callable[..., "ShardedVariable"]:
    """Make the method that changes rows, each of them in the shard that has it."""

    def scatter(self: "ShardedVariable", sparse_delta: IndexedSlices) -> "ShardedVariable":
        return self._scatter(method, sparse_delta)

    return scatter


class ShardedVariable(np.lib.mixins.NDArrayOperatorsMixin):
    """Several variables that are the rows of one, in order, such as the parts of a large table.

    Its value is computed with as that of any variable; an operation on the whole puts the shards together
    first. Reading some rows does not: an index, a slice, and `sparse_read`, which ``tf.nn.embedding_lookup``
    uses, take rows from the shards, whatever the size of the table. Iterating over it gives the shards.

    The shards may lie on different devices, and stay there. In compiled code each is a variable of its own:
    ``variables`` is what ``minimize`` and ``gradients`` take.

    Args:
        variables: Keras variables, of one dtype, and of one shape but for the number of rows.
        name: Its name in checkpoints, which have it as one variable.

    Raises:
        TypeError: There is no variable among them, or something else.
        ValueError: They have different shapes or dtypes.

    Source: tensorflow/python/distribute/sharded_variable.py, ``ShardedVariable``. Here an index at the edge
        of a shard is right, `sparse_read` keeps the order of the indices, a value of another shape is
        refused, and shards may have any number of rows.
    """

    def __init__(self, variables: Sequence[keras.Variable], name: str = "ShardedVariable") -> None:
        if not variables or not all(isinstance(variable, keras.Variable) for variable in variables):
            raise TypeError(
                "Argument `variables` should be a non-empty list of `variables.Variable`s. "
                f"Received {variables!r}. Give Keras variables, such as tf.Variable makes."
            )
        shapes = [tuple(variable.shape) for variable in variables]
        if () in shapes or len({shape[1:] for shape in shapes}) > 1:
            raise ValueError(
                "All elements in argument `variables` must have the same shapes except for the first axis, "
                f"which they all have. Received shapes: {shapes}."
            )
        dtypes = [variable.dtype for variable in variables]
        if len(set(dtypes)) > 1:
            raise ValueError(f"All elements in argument `variables` must have one dtype. Received: {dtypes}.")
        self._variables = tuple(variables)
        self._starts = [0, *itertools.accumulate(shape[0] for shape in shapes)]
        self._name = name

    @property
    def variables(self) -> list[keras.Variable]:
        """The shards, in order."""
        return list(self._variables)

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def path(self) -> str:
        """Its name in checkpoints."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all shards together."""
        return (self._starts[-1], *self._variables[0].shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes, at least 1."""
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The dtype of the shards."""
        return str(self._variables[0].dtype)

    @property
    def value(self) -> jax.Array:
        """The rows of all shards, as one array: on the device of the first shard, if they lie on several."""
        with together(self._variables):
            return _joined([variable.value for variable in self._variables])

    def __iter__(self) -> Iterator[keras.Variable]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.value, dtype)

    def __jax_array__(self) -> jax.Array:
        return self.value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        function = getattr(jnp, ufunc.__name__, None)
        if method != "__call__" or options or function is None:
            return NotImplemented
        return function(*(each.value if isinstance(each, ShardedVariable) else each for each in inputs))

    def __repr__(self) -> str:
        return f"<ShardedVariable {self.name}, shape={self.shape}, dtype={self.dtype}, {len(self)} shards>"

    def __getitem__(self, key: Any) -> jax.Array:
        first, *rest = (key if isinstance(key, tuple) else (key,)) or (...,)
        if isinstance(first, slice):
            return self._slice(first)[(slice(None), *rest)]
        if (
            not rest
            and isinstance(first, np.ndarray | jax.Array)
            and jnp.issubdtype(first.dtype, jnp.integer)
        ):
            return self.sparse_read(first)
        if isinstance(first, int | np.integer) and not isinstance(first, bool):
            return self._row(operator.index(first), rest)
        return self.value[key]

    def assign(self, value: Any) -> "ShardedVariable":
        """Set all rows.

        Args:
            value: An array of the variable's shape.

        Raises:
            ValueError: It has another shape. Nothing was set.
        """
        return self._assign("assign", value)

    def assign_add(self, delta: Any) -> "ShardedVariable":
        """Add an array of the variable's shape."""
        return self._assign("assign_add", delta)

    def assign_sub(self, delta: Any) -> "ShardedVariable":
        """Subtract an array of the variable's shape."""
        return self._assign("assign_sub", delta)

    scatter_add = _scatter("scatter_add")
    scatter_sub = _scatter("scatter_sub")
    scatter_mul = _scatter("scatter_mul")
    scatter_div = _scatter("scatter_div")
    scatter_max = _scatter("scatter_max")
    scatter_min = _scatter("scatter_min")
    scatter_update = _scatter("scatter_update")

    def sparse_read(self, indices: Any) -> jax.Array:
        """Return the rows at some indices, in the order of these; negative ones count from the end.

        Each shard is asked for as many rows as there are indices, so that shapes do not depend on them. The
        time is proportional to indices times shards, not to the rows that there are.

        Args:
            indices: Integers of any shape S. As in JAX, one that is out of range gives a row of NaN.

        Returns:
            The rows, of shape (*S, ...).

        Raises:
            TypeError: The indices are no integers.
        """
        masks, rows = [], []
        for variable, own, local in self._local(indices):
            masks.append(own.reshape(own.shape + (1,) * (self.ndim - 1)))
            # What another shard has is not read here, nor has it a gradient.
            rows.append(jnp.take(variable.value, local, axis=0))
        result, *others = _beside(rows)
        for own, more in zip(masks[1:], others, strict=True):
            result = jnp.where(own, more, result)
        return result

    def _local(self, indices: Any) -> Iterator[tuple[keras.Variable, Any, Any]]:
        """Yield each shard that has rows, which indices are its own, and where; others are `NO_ROW`.

        Raises:
            TypeError: The indices are no integers.
        """
        array = as_indices(indices)
        choose = np.where if isinstance(array, np.ndarray) else jnp.where
        array = choose(array < 0, array + self.shape[0], array)
        for variable, start, stop in self._spans():
            own = (array >= start) & (array < stop)
            yield variable, own, choose(own, array - start, NO_ROW)

    def _spans(self) -> list[tuple[keras.Variable, int, int]]:
        """Return each shard that has rows with its first row and its end; the first shard if none has any."""
        spans = list(zip(self._variables, self._starts, self._starts[1:], strict=False))
        return [span for span in spans if span[1] < span[2]] or spans[:1]

    def _row(self, index: int, rest: Sequence[Any]) -> jax.Array:
        rows = self.shape[0]
        if not -rows <= index < rows:
            raise IndexError(
                f"ShardedVariable: slice index {index} of dimension 0 out of bounds. It has {rows} rows."
            )
        index %= rows
        variable, start = next(
            (shard, start) for shard, start, stop in self._spans() if start <= index < stop
        )
        return variable.value[(index - start, *rest)]  # type: ignore[no-any-return]

    def _slice(self, rows: slice) -> jax.Array:
        wanted = range(*rows.indices(self.shape[0]))
        forward = wanted if wanted.step > 0 else wanted[::-1]
        spans = self._spans()
        parts = [variable.value[slice_within(forward, start, stop)] for variable, start, stop in spans]
        joined = _joined([part for part in parts if len(part)] or parts[:1])
        return joined if wanted.step > 0 else joined[::-1]

    def _assign(self, method: str, value: Any) -> "ShardedVariable":
        array = keras.ops.convert_to_tensor(value, self.dtype)
        if tuple(array.shape) != self.shape:
            raise ValueError(
                f"{self.name} has shape {self.shape}, got a value of shape {tuple(array.shape)}. Give one of "
                "the same shape, or assign to single `variables`."
            )
        with together(self._variables):
            for variable, start, stop in self._spans():
                getattr(variable, method)(_beside_value(variable, array[start:stop]))
        return self

    def _scatter(self, method: str, sparse_delta: IndexedSlices) -> "ShardedVariable":
        shape = np.shape(sparse_delta.indices)
        if len(shape) != 1:
            raise ValueError(
                f"ShardedVariable: indices must be 1D Tensor for sparse operations. Received shape: {shape}."
            )
        if lacking := [each for each in self._variables if not hasattr(each, method)]:
            raise TypeError(f"{method} changes rows of tf.Variables, got a shard {lacking[0]!r}.")
        for variable, _, local in self._local(sparse_delta.indices):
            values = _beside_value(variable, jnp.asarray(sparse_delta.values))
            getattr(variable, method)(IndexedSlices(values, local))
        return self


def as_indices(indices: Any) -> Any:
    """Return indices as wide integers: NumPy's if they are known, JAX's if they are traced.

    Raises:
        TypeError: They are no integers.
    """
    indices = indices.value if isinstance(indices, keras.Variable) else indices
    array = indices if isinstance(indices, jax.core.Tracer) else np.asarray(indices)
    if not jnp.issubdtype(array.dtype, jnp.integer) and array.size:
        raise TypeError(f"Rows have integers as indices, got {array.dtype}. Cast the indices first.")
    return array.astype(np.int64) if isinstance(array, np.ndarray) else array.astype(int)


def slice_within(wanted: range, start: int, stop: int) -> slice:
    """Return which rows of a shard that has those from ``start`` to ``stop`` are in a rising range."""
    skipped = max(0, -(-(start - wanted.start) // wanted.step))
    own = wanted[skipped : max(skipped, -(-(stop - wanted.start) // wanted.step))]
    return slice(own[0] - start, own[-1] - start + 1, own.step) if own else slice(0)


def _joined(arrays: Sequence[jax.Array]) -> jax.Array:
    return arrays[0] if len(arrays) == 1 else jnp.concatenate(_beside(arrays))


def _beside_value(variable: keras.Variable, array: jax.Array) -> jax.Array:
    """Return an array on the devices of a variable, which is not read if it has no devices here."""
    return array if storage_of(variable) is not None else _beside([variable.value, array])[1]


def _beside(arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Return arrays on the devices of the first of them. Compiled code has them there already."""
    if any(isinstance(array, jax.core.Tracer) for array in arrays):
        return list(arrays)
    there = arrays[0].sharding
    return [
        array if array.devices() == there.device_set else jax.device_put(array, there) for array in arrays
    ]


def _tracking_shards(original: Callable[..., None]) -> Callable[..., None]:
    def set_attribute(self: Any, name: str, value: Any) -> None:
        original(self, name, value)
        if isinstance(value, ShardedVariable):
            for shard in value:
                track_variable(self, shard)

    return set_attribute


wrap_in_scopes(keras.Layer, "__setattr__", _tracking_shards)
