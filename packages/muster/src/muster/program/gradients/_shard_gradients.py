"""Gradients of the shards of a variable: they are rows of its gradient, and are joined to be applied.

What is joined is the very gradient again, not a copy, if the program has only passed it on: that of a large
table then still consists of the rows that were looked up.
"""

from collections.abc import Sequence
from typing import Any

from muster._errors import GradientError
from muster.program.variables._by_identity import ByIdentity
from muster.program.variables._variable_shards import (
    VariableShard,
    joined_shards,
    whole_of,
    whole_variables,
)

# The gradient of the whole of which an array is a shard's, and the shard.
_PARTS: ByIdentity[tuple[Any, VariableShard] | None] = ByIdentity()


def shard_gradients(sources: Sequence[Any], wholes: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients of sources, among which are shards.

    Args:
        sources: Variables, shards and arrays.
        wholes: The same with variables in the place of their shards, each once.
        gradients: The gradients of these; None for none.
    """
    found = {id(whole): gradient for whole, gradient in zip(wholes, gradients, strict=True)}
    return [shard_of(found[id(whole_of(each))], each) for each in sources]


def shard_of(array: Any, variable: Any) -> Any:
    """Return the part of an array, which has the rows of the whole, that is a shard's."""
    if array is None or not isinstance(variable, VariableShard):
        return array
    part = variable.part_of(array)
    _PARTS[part] = (array, variable)
    return part


def whole_gradients(gradients: Sequence[Any], variables: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return gradients and variables, with those of shards joined.

    Raises:
        GradientError: The gradient of a shard is missing.
    """
    wholes = whole_variables(variables)
    if not any(isinstance(each, VariableShard) for each in variables):
        return list(gradients), wholes
    of: dict[int, list[tuple[Any, Any]]] = {}
    for gradient, variable in zip(gradients, variables, strict=True):
        of.setdefault(id(whole_of(variable)), []).append((gradient, variable))
    return [_joined(of[id(whole)], whole) for whole in wholes], wholes


def whole_arrays(arrays: Sequence[Any]) -> list[tuple[Any, list[tuple[int, VariableShard | None]]]]:
    """Join those of some arrays that are all shards of one gradient, as they were returned.

    Returns:
        Arrays, and the places of what each consists of, with the shards; the shard is None for an array
        that stays as it is.
    """
    groups: dict[int, list[tuple[int, Any, VariableShard]]] = {}
    for place, array in enumerate(arrays):
        if array is not None and (part := _PARTS.get(array, None)) is not None:
            groups.setdefault(id(part[0]), []).append((place, *part))
    found: dict[int, tuple[Any, list[tuple[int, VariableShard | None]]]] = {
        place: (array, [(place, None)]) for place, array in enumerate(arrays)
    }
    for parts in groups.values():
        if _rows([shard for _, _, shard in parts]) == parts[0][2].whole.shape[0]:
            for place, _, _ in parts:
                del found[place]
            found[parts[0][0]] = (parts[0][1], [(place, shard) for place, _, shard in parts])
    return [found[place] for place in sorted(found)]


def _rows(shards: Sequence[VariableShard]) -> int:
    return sum(shard.shape[0] for shard in {shard.number: shard for shard in shards}.values())


def _joined(pairs: Sequence[tuple[Any, Any]], whole: Any) -> Any:
    if not isinstance(pairs[0][1], VariableShard):
        return pairs[0][0]
    pairs = sorted(pairs, key=lambda pair: int(pair[1].number))
    if all(gradient is None for gradient, _ in pairs):
        return None
    missing = _rows([shard for _, shard in pairs]) < whole.shape[0]
    if missing or any(gradient is None for gradient, _ in pairs):
        raise GradientError(
            f"{whole.path} lies in shards on parameter servers, and is trained as one. Got gradients of "
            f"{[shard.path for gradient, shard in pairs if gradient is not None]} alone: give those of all "
            "its shards."
        )
    ((array, places), *others) = whole_arrays([gradient for gradient, _ in pairs])
    if not others and places[0][1] is not None:
        return array
    return joined_shards([gradient for gradient, _ in pairs])
