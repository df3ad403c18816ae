"""Leave the lines of muster, Keras and JAX out of tracebacks: a program's own say where its error is."""

import os
import sys
from collections.abc import Iterator
from types import TracebackType

from muster._frontend import frontend

# The variable that shows all lines.
SHOW_ALL = "MUSTER_FULL_TRACEBACKS"
# What to say above a traceback that lacks lines.
LEFT_OUT = f"(Lines in muster, Keras and JAX are left out; {SHOW_ALL}=1 shows them.)"

_PACKAGES = ("muster", "keras", "jax", "jaxlib")
_ONCE = "The code of a step runs once, without data, to find out what it computes. "
# What to do about JAX's errors, by their classes, which not every process has imported.
_ADVICE = {
    "TracerBoolConversionError": _ONCE + "In place of `if` write keras.ops.cond or keras.ops.where, in place "
    "of `while` keras.ops.while_loop, in place of `assert` a hook or callback; or decide by what is known "
    "beforehand, such as mode, params and shapes.",
    "TracerIntegerConversionError": _ONCE
    + "An array cannot be an index of a list or the length of a `range`: "
    "write keras.ops.take, keras.ops.arange or keras.ops.fori_loop, or use a number that is known "
    "beforehand, such as one of its shape.",
    "TracerArrayConversionError": _ONCE + "NumPy's functions need the numbers of an array: write those of "
    "keras.ops. To look at numbers, name an output for a LoggingTensorHook, or use jax.debug.print.",
    "ConcretizationTypeError": _ONCE + "float(), int() and item() need the number of an array: compute with "
    "the array itself, by keras.ops. To look at it, name an output for a LoggingTensorHook, or use "
    "jax.debug.print.",
    "NonConcreteBooleanIndexError": _ONCE + "How many elements a mask chooses is not known then: write "
    "keras.ops.where(mask, x, 0), or give weights of 0 and 1.",
}
# JAX's note that it has left out its own lines, with a line of dashes above it.
_OF_JAX = "For simplicity, JAX has removed its internal frames"


def shorten(error: BaseException) -> bool:
    """Leave the lines of libraries out of the tracebacks of an error, and of those that it came from.

    A traceback that has no other lines stays as it is, and so do all where the variable
    ``MUSTER_FULL_TRACEBACKS`` is set to something else than 0.

    Returns:
        Whether lines were left out.
    """
    if os.environ.get(SHOW_ALL, "0") not in ("", "0"):
        return False
    left_out = False
    for each in _chain(error):
        entries = list(_entries(each.__traceback__))
        kept = program_lines(each.__traceback__)
        if not kept or len(kept) == len(entries):
            continue
        left_out = True
        for entry, following in zip(kept, [*kept[1:], None], strict=True):
            entry.tb_next = following
        each.__traceback__ = kept[0]
        if notes := getattr(each, "__notes__", None):
            each.__notes__ = [note for note in notes if _OF_JAX not in note]
    return left_out


def advise(error: BaseException) -> None:
    """Let JAX's errors about values that a step does not know yet say in muster's words what to do."""
    for each in _chain(error):
        kind = type(each)
        if kind.__module__.startswith("jax.") and (advice := _ADVICE.get(kind.__name__)) and each.args:
            what, *_ = str(each.args[0]).splitlines()
            each.args = (f"{what.rstrip(':. ')}. {advice}",)


def program_lines(trace: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback that are lines of the program, not of libraries or Python's start."""
    others = ("<frozen", *_folders())

    def is_others(entry: TracebackType) -> bool:
        code = entry.tb_frame.f_code
        module = str(entry.tb_frame.f_globals.get("__name__", ""))
        made = code.co_filename == "<string>" and module.partition(".")[0] in _PACKAGES  # as of a dataclass
        return made or code.co_filename.startswith(others)

    return [each for each in _entries(trace) if not is_others(each)]


def _folders() -> Iterator[str]:
    for name in _PACKAGES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            yield os.path.dirname(file) + os.sep
    for folder in frontend().folders:
        yield os.path.join(folder, "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, those that it came from, and those of a group, each once."""
    left, seen = [error], set()
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [other for other in (each.__cause__, each.__context__) if other is not None]
            left += getattr(each, "exceptions", ())


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
