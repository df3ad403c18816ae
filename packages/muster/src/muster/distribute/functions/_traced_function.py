"""A function and its arguments, traced into a program of the arrays among them, also those of `next`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from muster._arrays import AnyArray
from muster._errors import TraceError
from muster._integers import first_out_of_range
from muster._keras import keras
from muster.data import GetNext, Optional
from muster.distribute.functions._draws import Kind, RecordedDraws, out_of_range, read
from muster.distribute.input._distributed_dataset import DistributedIterator
from muster.distribute.replicas._values import PerReplica, ReplicaKind, is_array, is_leaf
from muster.program.trace import FunctionProgram, placeholder
from muster.program.variables import current_scope


class EagerIterator(GetNext):
    """An iterator in a function that runs untraced, and may run again on the same batches.

    Args:
        source: The iterator that was passed to the function.
    """

    def __init__(self, source: DistributedIterator) -> None:
        self._source = source
        self._batches: list[Any] = []
        self._next = 0

    def begin(self) -> None:
        """Begin a run of the function."""
        self._next = 0

    def give_back(self) -> None:
        """Give all batches back to the iterator."""
        if self._batches:
            self._source.give_back(self._batches)

    def __iter__(self) -> "EagerIterator":
        return self

    def __next__(self) -> Any:
        following = self.get_next_as_optional()
        if not following.has_value():
            raise out_of_range(len(self._batches))
        return following.get_value()

    def get_next_as_optional(self) -> Optional:
        """Return the next batch, or at the end an Optional without a value."""
        if self._next == len(self._batches):
            following = read(self._source)
            if not following.has_value():
                return following
            self._batches.append(following.get_value())
        self._next += 1
        batch = self._batches[self._next - 1]
        # As for arguments: NumPy's arrays would handle operators with tracers of a gradient themselves.
        return Optional((jax.tree.map(_as_jax_array, batch, is_leaf=is_leaf),))


class TracedIterator(GetNext):
    """An iterator in a function that is being traced.

    While the function is recorded, each ``next`` draws a batch, for its shapes. Later calls draw as many
    batches beforehand, and the program takes their arrays. A program recorded at the end of the data, which
    ``get_next_as_optional`` reveals, serves later calls at the end of the data.

    Args:
        draws: Draws batches while the function is recorded.
        source: The number of this iterator among those of the function.
        whole: Whether the program takes all rows of uneven batches for each replica.
    """

    def __init__(self, draws: RecordedDraws, source: int, whole: bool = False) -> None:
        self._draws: RecordedDraws | None = draws
        self._source = source
        self._whole = whole
        # The kind of each batch, and the number of its first array among all; None at the end of the data.
        self._kinds: list[tuple[int, Kind] | None] = []
        self._arrays: Sequence[jax.Array] = ()
        self._next = 0

    def begin(self, arrays: Sequence[jax.Array]) -> None:
        """Begin a run of the function.

        Args:
            arrays: The arrays drawn from all iterators; none while the function is recorded.
        """
        self._next, self._arrays = 0, arrays
        if self._draws is not None:
            self._kinds = []

    def end_recording(self) -> None:
        """End the recording, and let go of the batches and of their iterators."""
        self._draws = None

    def __iter__(self) -> None:
        raise TraceError(
            "A loop over an iterator in a traced function would make one program of all of its batches. Loop "
            "outside of the function, or call `next` as often as one call is to take steps."
        )

    def __next__(self) -> Any:
        """Return the next batch, its arrays traced.

        Raises:
            OutOfRangeError: There is none, while the function is recorded.
        """
        return self._following(optional=False).get_value()

    def get_next_as_optional(self) -> Optional:
        """Return the next batch, its arrays traced, or at the end an Optional without a value."""
        return self._following(optional=True)

    def _following(self, optional: bool) -> Optional:
        if self._draws is not None:
            draw = self._draws.draw(self._source, optional)
            kind = draw.kind.whole() if self._whole and draw.kind is not None else draw.kind
            self._kinds.append(None if kind is None else (draw.begin, kind))
        if self._next == len(self._kinds):
            raise TraceError(
                f"The function takes more batches this time than the {self._next} that it took when it was "
                "traced first. It must take as many at every call with arguments of one kind."
            )
        found = self._kinds[self._next]
        self._next += 1
        return Optional() if found is None else Optional((self._traced(*found),))

    def _traced(self, begin: int, kind: Kind) -> Any:
        if self._draws is None:
            arrays = self._arrays[begin : begin + len(kind.arrays)]
        else:
            arrays = [placeholder(shape[per is not None :], dtype) for shape, dtype, per in kind.arrays]
        pairs = zip(arrays, kind.arrays, strict=True)
        values = [array if per is None else PerReplica(array, per) for array, (_, _, per) in pairs]
        return jax.tree.unflatten(kind.structure, values)


def _as_jax_array(leaf: Any) -> Any:
    return jnp.asarray(leaf) if is_array(leaf) else leaf


ARRAY = object()
"""Stands for an array among values that are constants of a program."""


@dataclass(frozen=True)
class ValueLayout:
    """The arguments or the results of a function, without their arrays.

    Attributes:
        structure: The structure of the values.
        constants: The values that are no arrays; ``ARRAY`` stands for an array.
        kinds: For each array what tells it apart as a ``PerReplica``; None if it is none.
    """

    structure: PyTreeDef
    constants: tuple[Any, ...]
    kinds: tuple[ReplicaKind | None, ...]

    @property
    def only_arrays(self) -> bool:
        """True if all values are arrays that are not ``PerReplica``."""
        return all(each is ARRAY for each in self.constants) and not any(self.kinds)

    def filled(self, arrays: Sequence[AnyArray]) -> Any:
        """Return the values with these arrays filled in."""
        pairs = zip(arrays, self.kinds, strict=True)
        values = iter([array if kind is None else PerReplica.of(array, kind) for array, kind in pairs])
        return self.structure.unflatten([next(values) if c is ARRAY else c for c in self.constants])


def traced_function(
    python_function: Callable[..., Any],
    leaves: Sequence[Any],
    structure: PyTreeDef,
    draws: RecordedDraws,
    iterators: Mapping[Any, TracedIterator],
    *,
    once: bool = False,
    mends: bool = True,
) -> tuple[FunctionProgram[ValueLayout], ValueLayout]:
    """Trace a function into a program of the arrays among its arguments, and then those of drawn batches.

    Args:
        python_function: The function.
        leaves: Flat arguments.
        structure: Their structure.
        draws: Draws batches while the function is recorded.
        iterators: What the function gets in place of each iterator among the arguments.
        once: See `FunctionProgram`.
        mends: See `FunctionProgram`.

    Returns:
        The program, and the arguments without their arrays.
    """
    arguments = separated(replaced(leaves, iterators), structure)[1]
    passed = len(arguments.kinds)
    traced = list(iterators.values())  # and not the iterators themselves, which hold data
    recording: RecordedDraws | None = draws

    def body(arrays: list[jax.Array]) -> tuple[list[jax.Array], ValueLayout]:
        if recording is not None:
            recording.record()
        for iterator in traced:
            iterator.begin(arrays[passed:])
        args, kwargs = arguments.filled(arrays[:passed])
        return flattened(python_function(*args, **kwargs))

    example = [_shape_per_replica(leaf) for leaf in leaves if is_dynamic(leaf)]
    given = [leaf for leaf in leaves if is_array(leaf)]
    program: FunctionProgram[ValueLayout] = FunctionProgram(
        body, example, given=given if len(given) == len(example) else (), once=once, mends=mends
    )
    draws.end_recording()
    recording = None
    for iterator in traced:
        iterator.end_recording()
    return program, arguments


def separated(leaves: Sequence[Any], structure: PyTreeDef) -> tuple[list[Any], ValueLayout]:
    """Separate the arrays among flat values from the others."""
    dynamic = [leaf for leaf in leaves if is_dynamic(leaf)]
    constants = tuple(ARRAY if is_dynamic(leaf) else leaf for leaf in leaves)
    kinds = tuple(leaf.kind if isinstance(leaf, PerReplica) else None for leaf in dynamic)
    return list(map(data_of, dynamic)), ValueLayout(structure, constants, kinds)


def flattened(returned: Any) -> tuple[list[jax.Array], ValueLayout]:
    """Separate the arrays from the other values that a function returned; Python's numbers become arrays."""
    scope = current_scope()
    leaves, structure = jax.tree.flatten(returned, is_leaf=is_leaf)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, keras.Variable) and scope is not None:
            leaf = scope.read(leaf)
        is_number = isinstance(leaf, bool | int | float | complex)
        if isinstance(leaf, np.ndarray | np.generic):
            _require_range(leaf)
        leaves[i] = jnp.asarray(leaf) if is_number or is_array(leaf) else leaf
    dynamic = filter(is_dynamic, leaves)
    arrays: list[Any] = [leaf.data if isinstance(leaf, PerReplica) else leaf for leaf in dynamic]
    return arrays, separated(leaves, structure)[1]


def _require_range(value: "np.ndarray[Any, Any] | np.generic") -> None:
    """Refuse a result of 64 bits that JAX would truncate to 32.

    Raises:
        TraceError: There is an integer that does not fit.
    """
    narrow = jax.dtypes.canonicalize_dtype(value.dtype) if value.dtype.kind in "iu" else value.dtype
    if narrow == value.dtype:
        return
    wrong = first_out_of_range(value, np.iinfo(narrow))
    if wrong is not None:
        raise TraceError(
            f"The function returns {wrong}, a number of type {wrong.dtype} that does not fit into {narrow}, "
            "which JAX uses in its place. Compute it outside of the function, return it as text or as a "
            "float, or set jax_enable_x64."
        )


def replaced(leaves: Sequence[Any], iterators: Mapping[Any, Any]) -> list[Any]:
    """Return flat arguments with others in place of the iterators."""
    return [iterators.get(leaf, leaf) if isinstance(leaf, GetNext) else leaf for leaf in leaves]


def is_dynamic(leaf: Any) -> bool:
    """Return whether an argument is an input of the program rather than a constant of it."""
    return isinstance(leaf, PerReplica) or is_array(leaf)


def data_of(leaf: Any) -> Any:
    """Return the array of a dynamic argument."""
    return leaf.arrays if isinstance(leaf, PerReplica) else leaf


def _shape_per_replica(leaf: Any) -> jax.ShapeDtypeStruct:
    array = leaf.data if isinstance(leaf, PerReplica) else leaf
    shape = array.shape[1:] if isinstance(leaf, PerReplica) else array.shape
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(array.dtype, allow_extended_dtype=True))
