"""Attributes that are read as Keras has them, and called as TensorFlow has them: ``variable.value()``.

Keras' variables have their value as an attribute, which Keras reads everywhere, and TensorFlow's have a
method of this name. Arrays that could be called would be taken for functions in many places. So the code
that reads the attribute is asked: Python compiles ``variable.value()`` to another instruction than
``variable.value``, ``LOAD_METHOD`` in Python 3.11 and since then a ``LOAD_ATTR`` with its lowest bit set.
``tests/v2/test_variable.py`` fails where that is otherwise.
"""

import dis
import itertools
import sys
from collections.abc import Sequence
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
    instructions = [each for each in dis.get_instructions(code) if each.opname not in _BETWEEN]
    return frozenset(
        each.offset
        for place, each in enumerate(instructions)
        if each.opname == "LOAD_METHOD"
        or (
            each.opname == "LOAD_ATTR"
            and (_is_of_method(each) or _is_called_later(instructions[place + 1 :]))
        )
    )


# What compilers put between the loading of a function and its call.
_BETWEEN = ("PUSH_NULL", "PRECALL", "CACHE", "KW_NAMES", "RESUME", "NOP")


def _is_of_method(instruction: dis.Instruction) -> bool:
    return sys.version_info >= (3, 12) and bool((instruction.arg or 0) & 1)


# What loads a variable of some code.
_LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF")


def _is_called_later(following: Sequence[dis.Instruction]) -> bool:
    """Return whether code keeps an attribute in a variable, as in ``f = v.value``, only to call it.

    So does pytest, which takes a call in an ``assert`` apart, and shows what it has called.
    """
    if not following or not following[0].opname.startswith("STORE_"):
        return False
    name = following[0].argval
    are_calls = [
        after.opname == "CALL" and after.arg == 0
        for loaded, after in itertools.pairwise(following[1:])
        if loaded.opname.startswith(_LOADS) and loaded.argval == name
    ]
    return any(are_calls[:1]) if str(name).startswith("@py_assert") else any(are_calls) and all(are_calls)
