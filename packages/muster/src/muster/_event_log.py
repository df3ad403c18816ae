"""Keep what happened to a state machine, so that a failure can be read, and replayed.

A log is Python: first the call that makes the machine, then for each call of `StateMachine.handle` the time,
the events and the actions. Lines can be copied into a test. `replay` makes the machine again and gives it the
same events; `read` only reads. The idea is that of ``stimulus_log`` in dask's
``distributed/worker_state_machine.py``.
"""

import ast
import contextlib
import dataclasses
import enum
import math
import os
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

_Event = TypeVar("_Event", contravariant=True)
_Action = TypeVar("_Action", covariant=True)
_E = TypeVar("_E")
_A = TypeVar("_A")

# How many entries a log keeps.
MOST_ENTRIES = 5000
_CUT = "# Cut: {} earlier entries are left out, so that this can be read, but not replayed."
_NUMBERS = {"inf": math.inf, "nan": math.nan}
# The logs of machines that are there, for tests that fail.
live_logs: "weakref.WeakSet[EventLog[Any, Any]]" = weakref.WeakSet()


class StateMachine(Protocol[_Event, _Action]):
    """Turns events into actions, without processes, sockets, threads or clocks."""

    def start(self) -> Sequence[_Action]:
        """Return the first actions."""

    def handle(self, events: Sequence[_Event], now: float) -> Sequence[_Action]:
        """Take the events that have come at once, which may be none, and return the actions.

        Args:
            events: The events.
            now: The time in seconds, from any start, by a clock that does not go back.
        """


@dataclasses.dataclass
class _Entry(Generic[_E, _A]):
    now: float
    events: tuple[_E, ...]
    actions: tuple[_A, ...] | None = None  # None: it has raised an error


class EventLog(Generic[_E, _A]):
    """Keeps the calls of a machine's `handle`.

    Most events come again and again, such as heartbeats, and change nothing. Of those that say the same, with
    the same actions, the first and the last are kept of each stretch in which nothing else happens.

    Args:
        name: The machine's class.
        args: The arguments that make it, which do not change: they are written when somebody reads the log.
        kwargs: Those by name.
        recurring: Returns for a recurring event what it is about and what it says of that; None for others,
            and if there are none.
        kept: Returns what is kept of an event or an action.
        most: How many entries are kept: the last ones.

    Attributes:
        name: The machine's class.
    """

    def __init__(
        self,
        name: str,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        recurring: Callable[[_E], tuple[Hashable, Hashable] | None] | None = None,
        kept: Callable[[Any], Any] = lambda each: each,
        most: int = MOST_ENTRIES,
    ) -> None:
        self.name = name
        self._args, self._kwargs = args, dict(kwargs or {})
        self._recurring = recurring
        self._kept = kept
        self._most = most
        self._entries: dict[int, _Entry[_E, _A]] = {}
        self._added = self._cut = 0
        # Of this stretch: the first and the last entry with the same news, and the last news of a subject.
        self._same: dict[Hashable, tuple[int, int]] = {}
        self._said: dict[Hashable, Hashable] = {}
        live_logs.add(self)

    def handle(
        self, handle: Callable[[Sequence[_E], float], list[_A]], events: Sequence[_E], now: float
    ) -> list[_A]:
        """Call a machine's own `handle`, and keep what it was given and returns."""
        entry: _Entry[_E, _A]
        entry = self._entries[self._added] = _Entry(now, tuple(map(self._kept, events)))
        self._added += 1
        actions = handle(events, now)
        entry.actions = tuple(map(self._kept, actions))
        if self._recurring is not None:
            self._merge(self._added - 1, entry, self._recurring)
        if len(self._entries) > self._most:
            del self._entries[next(iter(self._entries))]
            self._cut += 1
        return actions

    def _merge(
        self,
        number: int,
        entry: _Entry[_E, _A],
        recurring: Callable[[_E], tuple[Hashable, Hashable] | None],
    ) -> None:
        news = tuple(map(recurring, entry.events))
        subjects = [each[0] for each in news if each is not None]
        if None in news or any(self._said.get(each, news) != news for each in subjects):
            self._same.clear()
            self._said.clear()
            if None in news:
                return
        self._said.update(dict.fromkeys(subjects, news))
        first, last = self._same.get(news, (number, number))
        known = self._entries.get(last)
        if known is None or known.actions != entry.actions:
            first = number
        elif last not in (first, number):
            del self._entries[last]
        self._same[news] = first, number

    def __str__(self) -> str:
        lines = [_CUT.format(self._cut)] if self._cut else []
        words = [
            *map(as_python, self._args),
            *(f"{key}={as_python(value)}" for key, value in self._kwargs.items()),
        ]
        lines.append(f"{self.name}({', '.join(words)})")
        for entry in self._entries.values():
            actions = "..." if entry.actions is None else as_python(entry.actions)
            lines.append(f"({as_python(entry.now)}, {as_python(entry.events)}, {actions})")
        return "\n".join(lines) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the log to a file. What cannot be written is left out."""
        with (
            contextlib.suppress(OSError),
            open(path, "w", encoding="utf-8", errors="backslashreplace") as file,
        ):
            file.write(str(self))


class Shown(NamedTuple):
    """Is an entry of a log as its text says, of any machine.

    Attributes:
        line: The number of the line of the log, from 1; that of its making for the first one.
        now: The time, in seconds from any start; None for the making.
        events: The events, as Python; for the making, what makes the machine.
        actions: The actions, as Python; None if there was an error.
    """

    line: int
    now: float | None
    events: tuple[str, ...]
    actions: tuple[str, ...] | None


def is_cut(text: str) -> bool:
    """Return whether a log has lost its first entries, so that it can be read, but not replayed."""
    return text.startswith(_CUT.split("{")[0])


def read(text: str) -> Iterator[Shown]:
    """Yield the entries of a log, also of one without its beginning, or of a machine that cannot be made.

    Args:
        text: The log.

    Raises:
        ValueError: The text is no log.
    """
    made = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            node = ast.parse(line.strip(), mode="eval").body
        except SyntaxError as exc:
            raise ValueError(f"line {number}: {exc.msg} in {line[:80]}") from exc
        match node:
            case ast.Call(ast.Name()) if not made:
                made = True
                yield Shown(number, None, (ast.unparse(node),), ())
            case ast.Tuple([ast.Constant(float() | int() as now), ast.Tuple(events), actions]) if made:
                then = tuple(map(ast.unparse, actions.elts)) if isinstance(actions, ast.Tuple) else None
                yield Shown(number, now, tuple(map(ast.unparse, events)), then)
            case _:
                what = "time, events and actions" if made else "machine that it begins with"
                raise ValueError(f"line {number}: it is no {what}: {line[:80]}")
    if not made:
        raise ValueError("it is empty")


class Replayed(NamedTuple):
    """Pairs what a machine did with events with what it does now.

    Attributes:
        line: The number of the line of the log, from 1; that of its making for the first actions.
        now: The time, in seconds from any start; None for the first actions.
        events: The events.
        then: The actions of the log; None if there was an error.
        actions: Those of now; None if there is an error now.
        error: That error.
    """

    line: int
    now: float | None
    events: tuple[Any, ...]
    then: tuple[Any, ...] | None
    actions: tuple[Any, ...] | None
    error: Exception | None = None


def replay(text: str, names: Mapping[str, type]) -> Iterator[Replayed]:
    """Make the machine of a log again, and yield what it does with each entry's events.

    Args:
        text: The log.
        names: The classes that it may name, and no others: machines, events, actions and what they have.

    Raises:
        ValueError: The text is no log of these machines, or a log without its beginning.
    """
    if is_cut(text):
        raise ValueError("its first entries were left out, as there were too many: read it")
    machine: Any = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        value = _parse(line, number, names)
        if machine is None:
            if not hasattr(value, "handle"):
                raise ValueError(f"line {number}: it does not begin with a machine: {line[:80]}")
            machine = value
            first = tuple(machine.start())
            yield Replayed(number, None, (), first, first)
            continue
        match value:
            case (float() | int() as now, tuple() as events, tuple() | None as then):
                pass
            case _:
                raise ValueError(f"line {number}: it is no time, events and actions: {line[:80]}")
        actions: tuple[Any, ...] | None = None
        error = None
        try:
            actions = tuple(machine.handle(events, now))
        except Exception as exc:
            error = exc
        yield Replayed(number, now, events, then, actions, error)
        if error is not None:
            return
    if machine is None:
        raise ValueError("it is empty")


def as_python(value: Any) -> str:
    """Return a value as Python that `_parse` reads."""
    match value:
        case enum.Enum():
            return f"{type(value).__name__}.{value.name}"
        case tuple() if hasattr(value, "_fields"):
            return f"{type(value).__name__}({', '.join(map(as_python, value))})"
        case tuple():
            return f"({', '.join(map(as_python, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(as_python, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{as_python(key)}: {as_python(each)}' for key, each in value.items())}}}"
        case float():
            return repr(value)
    if isinstance(value, msgspec.Struct):
        fields = ((each.name, each.default) for each in msgspec.structs.fields(value))
        given = ((name, getattr(value, name)) for name, default in fields if getattr(value, name) != default)
        return f"{type(value).__name__}({', '.join(f'{name}={as_python(each)}' for name, each in given)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        words = []
        skipped = False  # those after it need their names
        for field in dataclasses.fields(value):
            each = getattr(value, field.name)
            if not field.init:
                continue
            if each == _default(field):
                skipped = True
            else:
                named = f"{field.name}=" if field.kw_only or skipped else ""
                words.append(f"{named}{as_python(each)}")
        return f"{type(value).__name__}({', '.join(words)})"
    return repr(value)


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _parse(line: str, number: int, names: Mapping[str, type]) -> Any:
    try:
        return _value(ast.parse(line.strip(), mode="eval").body, names)
    except (SyntaxError, TypeError, KeyError, AttributeError) as exc:
        raise ValueError(f"line {number}: {exc} in {line[:80]}") from exc


def _value(node: ast.expr, names: Mapping[str, type]) -> Any:
    match node:
        case ast.Constant(value):
            return None if value is ... else value
        case ast.Tuple(parts):
            return tuple(_value(each, names) for each in parts)
        case ast.List(parts):
            return [_value(each, names) for each in parts]
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return {_value(key, names): _value(each, names) for key, each in pairs if key is not None}
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, names)
        case ast.Name(name):
            return _NUMBERS[name]
        case ast.Attribute(ast.Name(name), member) if issubclass(kind := names[name], enum.Enum):
            return kind[member]
        case ast.Call(ast.Name(name), args, keywords):
            named = {each.arg: _value(each.value, names) for each in keywords if each.arg is not None}
            return names[name](*(_value(each, names) for each in args), **named)
    raise TypeError(f"unexpected {type(node).__name__.lower()}")
