"""``tf.nest``: structures of lists, tuples and dicts, whose leaves None is one of.

Source: tensorflow/python/util/nest.py.
"""

from collections.abc import Callable
from typing import Any

from muster import keras
from muster.data import RaggedTensor, SparseTensor


def is_nested(seq: Any) -> bool:
    """Return whether a value is a structure, and no leaf."""
    nested: bool = keras.tree.is_nested(seq)
    return nested


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return the leaves, those of dicts in the order of their sorted keys.

    Args:
        structure: The structure.
        expand_composites: Whether to take ragged and sparse tensors apart.
    """
    leaves: list[Any] = keras.tree.flatten(structure)
    return [part for leaf in leaves for part in _parts(leaf)] if expand_composites else leaves


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Call a function for each leaf, or for those at the same place of several structures.

    Args:
        func: Takes a leaf of each structure.
        *structure: The structures.
        **kwargs: ``expand_composites``: whether to take ragged and sparse tensors apart; ``check_types``:
            whether containers must be of one type, by default True.
    """
    if kwargs.pop("expand_composites", False):
        first = flatten(structure[0], expand_composites=True)
        others = [flatten(each, expand_composites=True) for each in structure[1:]]
        return pack_sequence_as(structure[0], [*map(func, first, *others)], expand_composites=True)
    if kwargs.pop("check_types", True):
        return keras.tree.map_structure(func, *structure, **kwargs)
    leaves = [flatten(each) for each in structure]
    return pack_sequence_as(structure[0], [func(*each) for each in zip(*leaves, strict=True)])


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Return a structure with other leaves, which `flatten` has returned, or something made of these."""
    if not expand_composites:
        return keras.tree.pack_sequence_as(structure, list(flat_sequence))
    left = list(flat_sequence)
    return keras.tree.map_structure(lambda leaf: _made(leaf, [left.pop(0) for _ in _parts(leaf)]), structure)


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise an error unless two structures are alike but for their leaves.

    Args:
        nest1: The one.
        nest2: The other.
        check_types: Whether containers must be of one type.
        expand_composites: Unused.

    Raises:
        ValueError: They have other keys, or other numbers of elements.
        TypeError: They have other containers.
    """
    if check_types:
        keras.tree.assert_same_structure(nest1, nest2)
    elif len(flatten(nest1)) != len(flatten(nest2)):
        raise ValueError("The two structures do not have as many leaves.")


def _parts(leaf: Any) -> list[Any]:
    if isinstance(leaf, RaggedTensor):
        return [*_parts(leaf.values), leaf.row_splits]
    if isinstance(leaf, SparseTensor):
        return [leaf.indices, leaf.values, leaf.dense_shape]
    return [leaf]


def _made(leaf: Any, parts: list[Any]) -> Any:
    if isinstance(leaf, RaggedTensor):
        return RaggedTensor.from_row_splits(_made(leaf.values, parts[:-1]), parts[-1])
    return SparseTensor(*parts) if isinstance(leaf, SparseTensor) else parts[0]
