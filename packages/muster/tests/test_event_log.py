"""What a log of events keeps of a machine, and that it can be done again."""

import dataclasses
import enum
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import harness
from muster._event_log import EventLog, is_cut, live_logs, read, replay


class Side(enum.Enum):
    LEFT = "l"


class Reason(NamedTuple):
    number: int
    text: str


@dataclasses.dataclass(frozen=True)
class Came:
    number: float
    side: Side = Side.LEFT
    reason: Reason | None = None
    more: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Beat:
    level: int = 0


@dataclasses.dataclass(frozen=True)
class Told:
    total: float


def _recurring(event):
    return ("level", None) if isinstance(event, Beat) else None


class Adder:
    """Adds up what came; tells the sum, but not at a beat, and breaks at a negative number."""

    def __init__(self, total, *, step=1.0):
        self.log = EventLog("Adder", (total,), {"step": step}, recurring=_recurring)
        self.total, self.step = total, step

    def start(self):
        return [Told(self.total)]

    def handle(self, events, now):
        return self.log.handle(self._handle, events, now)

    def _handle(self, events, now):
        for event in events:
            if isinstance(event, Beat):
                return []
            if event.number < 0:
                raise ArithmeticError("it went down")
            self.total += event.number * self.step
        return [Told(self.total)]


NAMES = {each.__name__: each for each in (Adder, Came, Beat, Told, Side, Reason)}


def test_what_a_log_says_can_be_read_as_python_and_done_again():
    adder = Adder(1.5, step=2.0)
    adder.handle([Came(1.0)], 0.25)
    adder.handle([Came(2.0, reason=Reason(-3, "it's\nso"), more={"a": [1, (2,)]})], 0.5)
    adder.handle([Came(math.inf)], 0.75)
    assert str(adder.log).splitlines() == [
        "Adder(1.5, step=2.0)",
        "(0.25, (Came(1.0),), (Told(3.5),))",
        r"""(0.5, (Came(2.0, reason=Reason(-3, "it's\nso"), more={'a': [1, (2,)]}),), (Told(7.5),))""",
        "(0.75, (Came(inf),), (Told(inf),))",
    ]
    entries = [*replay(str(adder.log), NAMES)]
    assert [each.now for each in entries] == [None, 0.25, 0.5, 0.75]
    assert all(each.actions == each.then for each in entries)
    assert entries[2].events[0].more == {"a": [1, (2,)]}


def test_of_what_comes_again_and_again_the_first_and_the_last_are_kept():
    adder = Adder(0.0)
    for now in range(100):
        adder.handle([Beat(level=now)], float(now))
    adder.handle([Came(1.0)], 100.0)
    for now in range(101, 200):
        adder.handle([Beat()], float(now))
    assert [each.now for each in replay(str(adder.log), NAMES)] == [None, 0, 99, 100, 101, 199]


def test_a_log_that_was_cut_says_so_and_is_not_replayed():
    adder = Adder(0.0)
    adder.log = EventLog("Adder", (0.0,), most=3, kept=lambda each: each)
    for now in range(5):
        adder.handle([Came(1.0)], float(now))
    assert str(adder.log).startswith("# Cut: 2 earlier entries are left out")
    assert len(str(adder.log).splitlines()) == 5
    with pytest.raises(ValueError, match="its first entries were left out"):
        next(replay(str(adder.log), NAMES))
    assert is_cut(str(adder.log))
    made, *entries = read(str(adder.log))
    assert made == (2, None, ("Adder(0.0)",), ())
    assert [(each.line, each.now) for each in entries] == [(3, 2.0), (4, 3.0), (5, 4.0)]
    assert (entries[0].events, entries[0].actions) == (("Came(1.0)",), ("Told(3.0)",))


def test_an_error_is_kept_with_what_led_to_it():
    adder = Adder(0.0)
    with pytest.raises(ArithmeticError):
        adder.handle([Came(-1.0)], 1.0)
    assert str(adder.log).endswith("(1.0, (Came(-1.0),), ...)\n")
    *_, shown = read(str(adder.log))
    assert shown == (2, 1.0, ("Came(-1.0)",), None)
    *_, last = replay(str(adder.log), NAMES)
    assert last.then is None
    assert str(last.error) == "it went down"


def test_another_action_than_then_is_found():
    *_, last = replay("Adder(0.0)\n(1.0, (Came(2.0),), (Told(3.0),))\n", NAMES)
    assert last.actions == (Told(2.0),)
    assert last.then == (Told(3.0),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("Told(1.0)\n", "line 1: it does not begin with a machine"),
        ("Adder(1.0)\n(1.0, 2)\n", "line 2: it is no time, events and actions"),
        ("Adder(1.0)\n(1.0, (Gone(),), ())\n", "line 2: 'Gone' in"),
        ("Adder(1.0)\n(1.0, (Came(1.0, size=2),), ())\n", "line 2: .*unexpected keyword argument 'size'"),
        ("Adder(__import__('os'))\n", "line 1: '__import__' in"),
        ("Adder([x for x in ()])\n", "line 1: unexpected listcomp"),
        ("Adder(\n", "line 1: "),
    ],
)
def test_what_is_no_log_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        [*replay(text, NAMES)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("3\n", "line 1: it is no machine that it begins with: 3"),
        ("Adder(1.0)\nAdder(1.0)\n", "line 2: it is no time, events and actions: Adder"),
        ("Adder(\n", "line 1: "),
    ],
)
def test_what_is_no_log_cannot_be_read(text, why):
    with pytest.raises(ValueError, match=why):
        [*read(text)]


def test_what_cannot_be_written_is_left_out(tmp_path):
    adder = Adder(0.0)
    adder.log.write(tmp_path / "missing" / "x.events")
    adder.log.write(tmp_path / "x.events")
    assert (tmp_path / "x.events").read_text() == str(adder.log)
    assert adder.log in live_logs


def test_a_test_that_fails_shows_what_its_machines_have_seen():
    adder = Adder(1.0)
    for now in range(harness._MOST_LINES + 5):
        adder.handle([Came(1.0, reason=Reason(now, "again"))], float(now))
    report = SimpleNamespace(failed=True, sections=[])
    hook = harness.pytest_runtest_makereport(None, None)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    ((title, text),) = report.sections
    assert title == "events of Adder"
    first, cut, *rest = text.split("\n")
    assert first == "Adder(1.0, step=1.0)"
    assert cut.endswith(" lines)")
    assert len(rest) == harness._MOST_LINES - 1
    assert "again" in rest[-1]
