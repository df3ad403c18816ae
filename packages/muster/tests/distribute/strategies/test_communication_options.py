"""CommunicationOptions, as TensorFlow has them."""

from typing import Any

import pytest

from departures import Departure, Json, error
from muster.distribute import CommunicationImplementation, CommunicationOptions
from recorded import cases, check_error, unused


def is_ours(case: dict[str, Any]) -> bool:
    return case["name"].startswith("options/")


def described(options: CommunicationOptions) -> dict[str, Any]:
    return {
        "type": "Options",
        "bytes_per_pack": options.bytes_per_pack,
        "timeout_seconds": options.timeout_seconds,
        "implementation": options.implementation.name,
        "str": str(options),
    }


def negative_timeout(asked: Json, expect: Json) -> Json | None:
    given = asked.get("kwargs", {}).get("timeout_seconds")
    if "error" in expect or not isinstance(given, int | float) or given >= 0:
        return None
    return error("ValueError", f"Argument `timeout_seconds` must be >=0, Received {given}.")


NEGATIVE = Departure("A timeout below zero cannot be meant.", negative_timeout)


@pytest.mark.parametrize("case", cases("communication_packs", is_ours, [NEGATIVE]))
def test_options(case: dict[str, Any]) -> None:
    asked, expect = case["input"], case["expect"]
    if "members" in expect:
        assert {name: each.value for name, each in CommunicationImplementation.__members__.items()} == expect[
            "members"
        ]
    elif "left" in asked:
        left = CommunicationOptions(**asked["left"])
        right = CommunicationOptions(**asked["right"]) if "right" in asked else None
        merged = described(left.merge(right))
        assert merged == expect.get("merged", expect)
    elif "error" in expect:
        with pytest.raises((ValueError, TypeError)) as raised:
            CommunicationOptions(**asked["kwargs"])
        check_error(expect["error"], raised.value)
    else:
        assert described(CommunicationOptions(**asked["kwargs"])) == expect


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("implementation", ["auto", "ring", "nccl"])
def test_what_cannot_carry_the_collectives_is_said(
    platform: str, implementation: str, caplog: pytest.LogCaptureFixture
) -> None:
    CommunicationOptions(implementation=implementation).check_platform(platform)
    expected = {
        ("cpu", "nccl"): "CommunicationImplementation.NCCL is for GPUs, and JAX has none here: RING is used.",
        ("gpu", "ring"): "CommunicationImplementation.RING is for CPUs: XLA chooses the algorithm on gpu.",
    }.get((platform, implementation))
    assert caplog.messages == ([] if expected is None else [expected])


def test_the_departure_is_of_use() -> None:
    assert unused("communication_packs", [NEGATIVE]) == []


def test_options_can_be_given_by_position() -> None:
    implementation = CommunicationImplementation.RING
    assert CommunicationOptions(1, 2.0, implementation) == CommunicationOptions(
        bytes_per_pack=1, timeout_seconds=2.0, implementation=implementation
    )
