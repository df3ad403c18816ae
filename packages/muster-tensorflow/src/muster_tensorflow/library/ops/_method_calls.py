"""Attributes that are read as Keras has them, and called as TensorFlow has them: ``variable.value()``.

Keras' variables have their value as an attribute, which Keras reads everywhere, and TensorFlow's have a
method of this name. Arrays that could be called would be taken for functions in many places. So the code
that reads the attribute is asked: Python compiles ``variable.value()`` to another instruction than
``variable.value``, ``LOAD_METHOD`` in Python 3.11 and since then a ``LOAD_ATTR`` with its lowest bit set.
``tests/v2/test_variable.py`` fails where that is otherwise.
"""

import dis
import sys
from types import CodeType, FrameType
from typing import Any

from muster.extend import ByIdentity

# The places in some code at which it calls an attribute.
_CALLS: ByIdentity[frozenset[int]] = ByIdentity()


class CalledOrRead(property):
    """A property whose value is a function that returns it, where code calls it."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = super().__get__(instance, owner)
        return (lambda: value) if instance is not None and _calls(sys._getframe(1)) else value


def called_or_read(attribute: property) -> CalledOrRead:
    """Let a property be called, too."""
    return CalledOrRead(attribute.fget, attribute.fset, doc=attribute.__doc__)


def _calls(frame: FrameType) -> bool:
    """Return whether the instruction that a frame executes loads an attribute to call it."""
    code = frame.f_code
    calls = _CALLS.get(code, None)  # type: ignore[arg-type]
    if calls is None:
        _CALLS[code] = calls = _calls_in(code)
    return frame.f_lasti in calls


def _calls_in(code: CodeType) -> frozenset[int]:
    return frozenset(
        each.offset
        for each in dis.get_instructions(code)
        if each.opname == "LOAD_METHOD" or (each.opname == "LOAD_ATTR" and _is_of_method(each))
    )


def _is_of_method(instruction: dis.Instruction) -> bool:
    return sys.version_info >= (3, 12) and bool((instruction.arg or 0) & 1)
