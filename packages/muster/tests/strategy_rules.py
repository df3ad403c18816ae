"""The form of a departure from strategy_api.json."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """Cases that come out otherwise.

    Attributes:
        about: Says whether a case is one of them, by what it asks for: see `asked_of`.
        reason: Why they come out otherwise.
        ours: Returns what is expected here, from what TensorFlow gives, what the case asks for and the number
            of replicas; None where there is nothing of the kind.
    """

    about: Callable[[Json], Any]
    reason: str
    ours: Callable[[Json, Json, int], Json] | None = None


def error(kind: str, message: str) -> Json:
    return {"error": {"type": kind, "message": message}}


def says(kind: str, message: str) -> Callable[[Json, Json, int], Json]:
    return lambda expect, asked, count: error(kind, message)


def several_say(kind: str, message: str) -> Callable[[Json, Json, int], Json]:
    """An error where there are several replicas; as TensorFlow where there is one."""
    return lambda expect, asked, count: error(kind, message) if count > 1 else expect


def of_replicas(values: list[Any]) -> Json:
    return {"kind": "PerReplica", "per_replica": values} if len(values) > 1 else {"value": values[0]}


def several(count: int) -> bool:
    return count > 1


def single(count: int) -> bool:
    return count == 1


ACCIDENT = "TensorFlow fails by accident, or in some strategies."
