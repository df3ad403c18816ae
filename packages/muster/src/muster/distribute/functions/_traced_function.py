"""A function and its arguments, traced into a program of the arrays among them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef

from muster._arrays import AnyArray
from muster._keras import keras
from muster.data import GetNext
from muster.distribute.functions._draws import RecordedDraws
from muster.distribute.functions._traced_iterator import TracedIterator
from muster.distribute.replicas._values import PerReplica, ReplicaKind, is_array, is_leaf
from muster.program.trace import FunctionProgram
from muster.program.variables import current_scope

ARRAY = object()
"""Stands for an array among values that are constants of a program."""


@dataclass(frozen=True)
class Values:
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
) -> tuple[FunctionProgram[Values], Values]:
    """Trace a function into a program of the arrays among its arguments, and then those of drawn batches.

    Args:
        python_function: The function.
        leaves: Flat arguments.
        structure: Their structure.
        draws: Draws batches while the function is recorded.
        iterators: What the function gets in place of each iterator among the arguments.
        once: See `FunctionProgram`.

    Returns:
        The program, and the arguments without their arrays.
    """
    arguments = separated(replaced(leaves, iterators), structure)[1]
    passed = len(arguments.kinds)
    traced = list(iterators.values())  # and not the iterators themselves, which hold data
    recording: RecordedDraws | None = draws

    def body(arrays: list[jax.Array]) -> tuple[list[jax.Array], Values]:
        if recording is not None:
            recording.record()
        for iterator in traced:
            iterator.begin(arrays[passed:])
        args, kwargs = arguments.filled(arrays[:passed])
        return flattened(python_function(*args, **kwargs))

    example = [_shape_per_replica(leaf) for leaf in leaves if is_dynamic(leaf)]
    given = [leaf for leaf in leaves if is_array(leaf)]
    program: FunctionProgram[Values] = FunctionProgram(
        body, example, given=given if len(given) == len(example) else (), once=once
    )
    draws.end_recording()
    recording = None
    for iterator in traced:
        iterator.end_recording()
    return program, arguments


def separated(leaves: Sequence[Any], structure: PyTreeDef) -> tuple[list[Any], Values]:
    """Separate the arrays among flat values from the others."""
    dynamic = [leaf for leaf in leaves if is_dynamic(leaf)]
    constants = tuple(ARRAY if is_dynamic(leaf) else leaf for leaf in leaves)
    kinds = tuple(leaf.kind if isinstance(leaf, PerReplica) else None for leaf in dynamic)
    return list(map(data_of, dynamic)), Values(structure, constants, kinds)


def flattened(returned: Any) -> tuple[list[jax.Array], Values]:
    """Separate the arrays from the other values that a function returned; Python's numbers become arrays."""
    scope = current_scope()
    leaves, structure = jax.tree.flatten(returned, is_leaf=is_leaf)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, keras.Variable) and scope is not None:
            leaf = scope.read(leaf)
        is_number = isinstance(leaf, bool | int | float | complex)
        leaves[i] = jnp.asarray(leaf) if is_number or is_array(leaf) else leaf
    dynamic = filter(is_dynamic, leaves)
    arrays: list[Any] = [leaf.data if isinstance(leaf, PerReplica) else leaf for leaf in dynamic]
    return arrays, separated(leaves, structure)[1]


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
