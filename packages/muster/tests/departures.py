"""What a departure is: a rule by which muster does, on purpose, something else than TensorFlow.

A rule looks at what a case asks for and at what TensorFlow made of it, not at its name, so that it holds
for cases that are recorded later, too. The rules lie beside the tests that read the cases. `recorded.py`
applies them, and sees to it that no rule excuses too much.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

# What muster does in a case about something that it does not have.
NOTHING: Json = {}


@dataclass(frozen=True)
class Departure:
    """One rule.

    Attributes:
        reason: Why muster does something else.
        instead: Returns what muster does, in the form of what TensorFlow did, from the input of a case and
            what TensorFlow did; `NOTHING` if muster has nothing of the kind; None if the case is none of the
            rule's.
        only: The name of the one case that the rule is about, for an oddity that has no family.
    """

    reason: str
    instead: Callable[[Json, Json], Json | None]
    only: str | None = None


def departed(rules: Iterable[Departure], case: Json) -> tuple[Json, list[Departure]]:
    """Return what muster is expected to do in a case, and the rules by which that is not what TensorFlow did.

    Rules are applied in turn, each to what the ones before it have made of the case.
    """
    expect, applied = case["expect"], []
    for rule in rules:
        if rule.only not in (None, case["name"]):
            continue
        instead = rule.instead(case["input"], expect)
        if instead is not None and instead != expect:
            expect = instead
            applied.append(rule)
        if instead is NOTHING:
            break
    return expect, applied


class Outcome(enum.Enum):
    """How what muster does in a case compares with what TensorFlow did."""

    LACKING = "are about what muster does not have"
    WORKING = "work where TensorFlow fails"
    REFUSED = "are refused"
    OTHER = "give something else"

    @classmethod
    def of(cls, theirs: Json, ours: Json) -> "Outcome":
        """Compare two expectations."""
        if ours is NOTHING:
            return cls.LACKING
        if "error" in ours:
            return cls.REFUSED
        return cls.WORKING if "error" in theirs else cls.OTHER


def error(kind: str, message: str) -> Json:
    """Return the expectation of an error: its built-in class, and a part of its message."""
    return {"error": {"type": kind, "message": message}}


def absent(reason: str, about: Callable[[Json], Any]) -> Departure:
    """Return the rule that muster has nothing of what some cases are about, by what they ask for."""
    return Departure(reason, lambda asked, expect: NOTHING if about(asked) else None)


def named(name: str, rule: Departure) -> Departure:
    """Return a rule for the one case of that name."""
    return replace(rule, only=name)
