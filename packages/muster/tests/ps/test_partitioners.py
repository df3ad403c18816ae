"""Partitioners, as TensorFlow's were recorded."""

from typing import Any

import numpy as np
import pytest

import recorded
from departures import Departure, Json, error
from muster import ps

_PARTITIONS = "partition/"


def _asked(about: str, value: Any, expect: Json) -> Departure:
    def instead(asked: Json, recorded: Json) -> Json | None:
        return expect if asked.get("args", {}).get(about) == value else None

    return Departure(
        "A number of shards or bytes below 1 is refused, by each partitioner in the same words.", instead
    )


def _unknown_size(asked: Json, expect: Json) -> Json | None:
    message = expect.get("error", {}).get("message", "")
    return error("ValueError", "has no size yet") if message.startswith("unsupported operand") else None


def _any_sequence(asked: Json, expect: Json) -> Json | None:
    return {"value": [6 if "Max" in asked["partitioner"] else 2, 1]} if _is_list(asked) else None


def _is_list(asked: Json) -> bool:
    return str(asked.get("shape")).startswith("python list")


def _refused(name: str, value: int) -> Json:
    return error("ValueError", f"Argument `{name}` must be positive. Received: {value}")


DEPARTURES = [
    _asked("num_shards", 0, _refused("num_shards", 0)),
    _asked("max_shard_bytes", 0, _refused("max_shard_bytes", 0)),
    _asked("max_shards", 0, _refused("max_shards", 0)),
    _asked("max_shards", -2, _refused("max_shards", -2)),
    Departure("A variable that is not built yet cannot be split, and the error says so.", _unknown_size),
    Departure("A shape is any sequence.", _any_sequence),
]


def test_all_departures_are_needed() -> None:
    assert recorded.unused("partitioners", DEPARTURES) == []


@pytest.mark.parametrize(
    "case", recorded.cases("partitioners", lambda case: case["name"].startswith(_PARTITIONS), DEPARTURES)
)
def test_shards_along_each_axis(case: dict[str, Any]) -> None:
    asked, expect = case["input"], case["expect"]
    shape = [6, 1] if _is_list(asked) else asked["shape"]
    axis = {} if asked["axis"] is None else {"axis": asked["axis"]}

    def counts() -> list[int]:
        return getattr(ps, asked["partitioner"])(**asked["args"])(shape, asked["dtype"], **axis)

    if "error" in expect:
        with pytest.raises(Exception) as raised:  # noqa: PT011  # compared below
            counts()
        recorded.check_error(expect["error"], raised.value)
    else:
        assert counts() == expect["value"]


@pytest.mark.parametrize(
    "partitioner",
    [ps.FixedShardsPartitioner(3), ps.MinSizePartitioner(1, max_shards=3), ps.MaxSizePartitioner(1)],
    ids=lambda partitioner: type(partitioner).__name__,
)
def test_scalars_and_empty_variables_are_not_split(partitioner: ps.Partitioner) -> None:
    assert partitioner((), "float32") == []
    assert partitioner((0, 4), "float32") == [1, 1]
    assert partitioner((1, 4), "float32") == [1, 1]


def test_rows_without_elements_have_no_size() -> None:
    assert ps.MaxSizePartitioner(8)((4, 0), "float32") == [1, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32"])
def test_dtypes_have_several_forms(dtype: Any) -> None:
    assert ps.MaxSizePartitioner(8)((4, 1), dtype) == [2, 1]
    with pytest.raises(ValueError, match="There is no dtype 'float33'"):
        ps.MaxSizePartitioner(8)((4, 1), "float33")


@pytest.mark.parametrize("number", [0, -1, 1.5, float("nan"), float("inf"), "2", None])
def test_what_is_no_number_of_shards_is_refused(number: Any) -> None:
    with pytest.raises(ValueError, match="Argument `num_shards` must be positive. Received: "):
        ps.FixedShardsPartitioner(number)


def test_whole_numbers_may_be_floats() -> None:
    assert ps.MaxSizePartitioner(1e6)((10**6,), "float32") == [4]  # type: ignore[arg-type]
