"""Lists of variables that show the shards of those that a partitioner divides, to programs alone.

Source: keras/src/engine/base_layer.py of Keras 2.15, ``Layer.add_weight`` and its ``is_split_variable``.
"""

import sys
from typing import Any

from muster.extend import StoredVariables, storage_of

_OURS = ("keras.", "muster.", "muster_tensorflow.")


def showing_shards(original: Any) -> property:
    """Wrap a property that lists variables; Keras and muster, when they ask, get what it gives."""

    def listed(self: Any) -> Any:
        variables = original.fget(self)
        asking = sys._getframe(1).f_globals.get("__name__") or ""
        return variables if asking.startswith(_OURS) else type(variables)(_with_shards(variables))

    return property(listed, original.fset, doc=original.__doc__)


def _with_shards(variables: Any) -> list[Any]:
    found: list[Any] = []
    for each in variables:
        storage = storage_of(each)
        shards = storage.shards_of(each) if isinstance(storage, StoredVariables) else ()
        found += shards or [each]
    return found
