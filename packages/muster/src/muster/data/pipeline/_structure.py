"""Nested elements: tuples, named tuples and dicts whose leaves are arrays, text or objects.

``None`` is a structure without leaves. A list is a leaf: it becomes an array, as in TensorFlow
(tensorflow/python/data/util/nest.py). Dicts keep the order of their keys.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from muster._errors import DatasetError


def flatten(value: Any) -> list[Any]:
    """Return the leaves of `value`, depth first."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flatten(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flatten(item)]
    return [] if value is None else [value]


def flatten_as(template: Any, value: Any) -> list[Any]:
    """Return the leaves of `value` in the order of `template`, which may be shallower.

    Args:
        template: A structure. Where it has a leaf, anything in `value` is a leaf.
        value: A structure of the same form. The keys of a dict may come in any order.

    Raises:
        DatasetError: The two have different forms.
    """
    if isinstance(template, tuple):
        if not isinstance(value, tuple) or len(value) != len(template):
            raise _mismatch(template, value)
        return [leaf for part, item in zip(template, value, strict=True) for leaf in flatten_as(part, item)]
    if isinstance(template, dict):
        if not isinstance(value, dict) or value.keys() != template.keys():
            raise _mismatch(template, value)
        return [leaf for key, part in template.items() for leaf in flatten_as(part, value[key])]
    if template is None:
        if value is not None:
            raise _mismatch(template, value)
        return []
    return [value]


def rebuild(template: Any, leaves: Iterable[Any]) -> Any:
    """Return a structure like `template` with other leaves, in the order of `flatten(template)`."""
    return _rebuild(template, iter(leaves))


def _rebuild(template: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(template, tuple):
        items = [_rebuild(part, leaves) for part in template]
        if type(template) is tuple:
            return tuple(items)
        return type(template)(*items)
    if isinstance(template, dict):
        return {key: _rebuild(part, leaves) for key, part in template.items()}
    return None if template is None else next(leaves)


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply `function` to each leaf of `value`."""
    if isinstance(value, tuple):
        items = [map_leaves(function, item) for item in value]
        if type(value) is tuple:
            return tuple(items)
        return type(value)(*items)
    if isinstance(value, dict):
        return {key: map_leaves(function, item) for key, item in value.items()}
    return None if value is None else function(value)


def form(value: Any) -> Any:
    """Return a hashable value that is equal for structures of the same form."""
    if isinstance(value, tuple):
        return (type(value), *[form(item) for item in value])
    if isinstance(value, dict):
        return (dict, *[(key, form(item)) for key, item in value.items()])
    return value is None


def describe(value: Any) -> str:
    """Format the structure of `value` in one line, with ``*`` for a leaf."""
    if isinstance(value, tuple):
        return f"({', '.join(describe(item) for item in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {describe(item)}' for key, item in value.items())}}}"
    return "None" if value is None else "*"


def _mismatch(template: Any, value: Any) -> DatasetError:
    found = describe(value) if isinstance(value, tuple | dict) else f"a value of type {type(value).__name__}"
    return DatasetError(
        f"elements differ in structure: expected {describe(template)}, got {found}. "
        "All elements of a dataset must have the same tuples and keys."
    )


def replaced(structure: Any, kind: type | tuple[type, ...], replace: Callable[[Any], Any]) -> Any:
    """Return a structure with other leaves for those of a type. Lists, too, have leaves here."""
    if isinstance(structure, kind):
        return replace(structure)
    if isinstance(structure, dict):
        return {name: replaced(value, kind, replace) for name, value in structure.items()}
    if isinstance(structure, list | tuple):
        made = [replaced(value, kind, replace) for value in structure]
        if isinstance(structure, tuple) and hasattr(structure, "_fields"):
            return type(structure)(*made)
        return made if isinstance(structure, list) else tuple(made)
    return structure
