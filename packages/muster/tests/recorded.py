"""The cases recorded by running TensorFlow: data in ``oracles``, or in the folder that MUSTER_ORACLES names.

The READMEs there say what the tags and placeholders mean. Where muster does something else on purpose, a
`Departure` says why, and what: such a case runs like any other, against that. How many there are is said at
the end of a run; ``pytest -m oracle --collect-only -q`` says it without one.
"""

import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from departures import NOTHING, Departure, Outcome, departed

IN_REPOSITORY = pathlib.Path(__file__).with_name("oracles")
FOLDER = pathlib.Path(os.environ.get("MUSTER_ORACLES") or IN_REPOSITORY)

# Texts that the Python interpreter or its json module makes: they prove that the input is refused.
_PYTHON_TEXT = re.compile(
    r"not supported between|invalid literal for int|int\(\) argument must be|can only concatenate|"
    r"argument of type|object is not iterable|has no attribute|arg is an empty sequence|out of range|"
    r"positional arguments? but|missing \d+ required|unexpected keyword argument|"
    r"can't (set|delete) attribute|^Expecting |has no setter|abstract method"
)


def load(file: str, folder: pathlib.Path = FOLDER) -> list[dict[str, Any]]:
    """Return all cases of one file, [] if MUSTER_ORACLES names a folder that has no such file."""
    path = folder / f"{file}.json"
    return json.loads(path.read_text()) if path.exists() else []


def cases(
    file: str,
    wanted: Callable[[dict[str, Any]], bool] = lambda case: True,
    departures: Iterable[Departure] = (),
) -> list[Any]:
    """Return one pytest parameter for each wanted case, marked `oracle` and named as the case is.

    A case in which muster departs from TensorFlow expects what muster does. It comes a second time, with what
    TensorFlow did: there the test must fail, or the departure excuses too much. A case about something that
    muster does not have comes only so, and is skipped when it has failed.
    """
    params = []
    for case in filter(wanted, load(file)):
        expect, rules = departed(departures, case)
        if expect is not NOTHING:
            ours = case | {"expect": expect}
            params.append(pytest.param(ours, id=case["name"], marks=pytest.mark.oracle))
        if rules:
            marks = [
                pytest.mark.oracle,
                pytest.mark.departs(rules[-1].reason, Outcome.of(case["expect"], expect)),
            ]
            params.append(pytest.param(case, id=f"{case['name']}-as-TensorFlow", marks=marks))
    if not params:
        reason = f"{FOLDER}, which MUSTER_ORACLES names, holds no such cases of {file}"
        params.append(pytest.param({}, id=file, marks=[pytest.mark.oracle, pytest.mark.skip(reason=reason)]))
    return params


def unused(file: str, departures: Iterable[Departure]) -> list[str]:
    """Return the reasons of those departures that apply to none of this repository's cases."""
    applied = [rule for case in load(file, IN_REPOSITORY) for rule in departed(departures, case)[1]]
    return [rule.reason for rule in departures if rule not in applied]


def decode(value: Any, makers: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Replace the tags in a value of a case.

    Args:
        value: JSON.
        makers: For tags such as ``"$object"``, what makes the thing from the decoded content of the tag.
    """
    known: dict[str, Callable[[Any], Any]] = {
        "$tuple": tuple,
        "$set": set,
        "$dict": dict,
        "$bytes": str.encode,
        "$float": float,
        "$generator": iter,
        **makers,
    }
    if isinstance(value, list):
        return [decode(each, makers) for each in value]
    if isinstance(value, dict):
        for tag, make in known.items():
            if set(value) == {tag}:
                return make(decode(value[tag], makers))
        return {key: decode(each, makers) for key, each in value.items()}
    return value


def check_error(expected: Mapping[str, Any], raised: BaseException) -> None:
    """Check that an error is the one expected: its built-in class, and the message if TensorFlow wrote it."""
    import builtins

    message = expected["message"]
    if _PYTHON_TEXT.search(message) or expected["type"] == "AssertionError":
        allowed: Any = (ValueError, TypeError, LookupError, AttributeError)
        assert isinstance(raised, allowed), f"{type(raised)}: {raised}"
        return
    name = expected["type"]
    base = getattr(builtins, name, None) or getattr(builtins, expected["builtin_base"])
    assert isinstance(raised, base), f"expected {expected}, raised {type(raised)}: {raised}"
    prefix = expected.get("stable_prefix")
    if prefix is not None:
        assert str(raised).startswith(prefix)
    else:
        # muster may say more, such as what to do.
        assert message.strip().removesuffix(".") in str(raised)


def same_text(actual: str, expected: str) -> bool:
    """Whether two texts are the same but for the placeholders in the one expected."""
    parts = re.split(r"<[a-z_]+>|0x<addr>|<function [^>]*>|<tensorflow[^>]*>", expected)
    pattern = ".*".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, actual, re.DOTALL) is not None


def check_same(
    actual: Any, expected: Any, where: str = "value", rel_tol: float = 1e-5, abs_tol: float = 1e-6
) -> None:
    """Check that two JSON-like values are equal, floats to about 1e-5."""
    if isinstance(expected, dict):
        assert isinstance(actual, Mapping), f"{where}: {actual!r} is not {expected!r}"
        assert set(actual) == set(expected), (
            f"{where}: {sorted(map(str, actual))} is not {sorted(map(str, expected))}"
        )
        for key, each in expected.items():
            check_same(actual[key], each, f"{where}.{key}", rel_tol, abs_tol)
    elif isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple), f"{where}: {actual!r} is not {expected!r}"
        assert len(actual) == len(expected), f"{where}: {actual!r} is not {expected!r}"
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            check_same(one, other, f"{where}[{index}]", rel_tol, abs_tol)
    elif isinstance(expected, float) and not isinstance(actual, str | bytes | bool | type(None)):
        close = math.isclose(actual, expected, rel_tol=rel_tol, abs_tol=abs_tol)
        assert close or (math.isnan(actual) and math.isnan(expected)), (
            f"{where}: {actual!r} is not {expected!r}"
        )
    else:
        assert actual == expected, f"{where}: {actual!r} is not {expected!r}"
        assert isinstance(actual, bool) == isinstance(expected, bool), (
            f"{where}: {actual!r} is not {expected!r}"
        )
