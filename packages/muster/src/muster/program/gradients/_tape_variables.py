"""Tell the open tapes of a thread which variables it reads."""

from collections.abc import Callable
from typing import Any

import jax

from muster._keras import keras
from muster.keras_hooks import WHILE_TAPES_ARE_OPEN
from muster.program.gradients._tape_record import TapeRecord
from muster.program.gradients._tape_trace import open_records
from muster.program.variables._remote_variables import storage_of
from muster.program.variables._variable_scope import current_scope
from muster.program.variables.keras_internals import current_value, set_values


def _watched(original: Any) -> property:
    """Wrap ``Variable.value``, a property of any class: the open tapes hear of it."""
    get: Callable[[Any], Any] = original.fget

    def value(self: Any) -> Any:
        records = open_records()
        if not records:
            return get(self)
        if current_scope() is not None:
            result = get(self)
            _note(self, result, [each for each in records if isinstance(each, TapeRecord) and each.of_step])
            return result
        if storage_of(self) is not None:  # each read makes another array
            result = get(self)
            _note(self, result, records)
            return result
        array, is_own = current_value(self)
        if array is not None:
            noted = _note(self, array, records)
            if noted is not array and is_own:
                set_values([self], [noted])
        return get(self)

    return type(original)(value, doc=original.__doc__)  # type: ignore[no-any-return]


def _note(variable: Any, array: jax.Array, records: Any) -> jax.Array:
    for record in records:
        if isinstance(record, TapeRecord):
            array = record.read(variable, array)
    return array


WHILE_TAPES_ARE_OPEN.add(keras.Variable, "value", _watched)
begin, end = WHILE_TAPES_ARE_OPEN.begin, WHILE_TAPES_ARE_OPEN.end
