"""Which rows of which variable lie on which server."""

import itertools
import math
import random
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import recorded
from muster._keras import keras
from muster.ps import FixedShardsPartitioner, MinSizePartitioner, ServedShard, ServedVariable, place
from shard_cases import DEPARTURES, partitioner_of, values_of


def test_all_departures_are_needed() -> None:
    assert recorded.unused("partitioners", DEPARTURES) == []


def asked_for(asked: dict[str, Any]) -> tuple[list[ServedVariable], Any, np.ndarray[Any, Any]]:
    """Return the variables of a case, its partitioner, and what the only variable holds."""
    values = values_of(asked)
    if values is None:
        return [ServedVariable(name=f"v{i}", shape=(), dtype="float32") for i in range(5)], None, np.zeros(5)
    return [ServedVariable(name="v", shape=values.shape, dtype="float32")], partitioner_of(asked), values


@pytest.mark.parametrize(
    "case", recorded.cases("partitioners", lambda case: case["name"].startswith("ps_div/"), DEPARTURES)
)
def test_shards_and_their_servers(case: dict[str, Any]) -> None:
    asked, expect = case["input"], case["expect"]
    variables, partitioner, values = asked_for(asked)
    if "error" in expect:
        with pytest.raises(ValueError) as raised:  # noqa: PT011  # compared below
            place(variables, asked["num_ps"], partitioner)
        recorded.check_error(expect["error"], raised.value)
        return
    shards = place(variables, asked["num_ps"], partitioner)
    found: dict[str, Any] = {"ps_task": [shard.server for shard in shards]}
    if len(variables) == 1:
        found["sharded"] = len(shards) > 1
        found["values"] = [values[shard.start : shard.stop].tolist() for shard in shards]
    if len(shards) > 1 and len(variables) == 1:
        found["sizes"] = [shard.stop - shard.start for shard in shards]
        found["offsets"] = [shard.start for shard in shards]
        found["names"] = [f"{shard.name}:0" for shard in shards]
    elif len(variables) == 1:
        found["name"] = f"{shards[0].name}:0"
    # How often TensorFlow calls an initializer is not a matter of where rows are.
    recorded.check_same(found, {key: value for key, value in expect.items() if key != "init_calls"})


def bytes_on(shards: list[ServedShard], servers: int) -> list[int]:
    return [sum(shard.nbytes for shard in shards if shard.server == server) for server in range(servers)]


def transformer() -> keras.Model:
    """Return a model of ten layers of a Transformer, with 16 variables each."""
    inputs = x = keras.Input((16, 64))
    for _ in range(10):
        attended = keras.layers.MultiHeadAttention(num_heads=4, key_dim=16)(x, x)
        x = keras.layers.LayerNormalization()(x + attended)
        hidden = keras.layers.Dense(256, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(64)(hidden))
    return keras.Model(inputs, x)


@pytest.mark.parametrize(
    "partitioner", [None, MinSizePartitioner(4096, max_shards=2)], ids=["whole", "split"]
)
def test_a_model_of_160_variables_is_balanced(partitioner: Any) -> None:
    variables = [
        ServedVariable(name=each.path, shape=tuple(each.shape), dtype=each.dtype)
        for each in transformer().variables
    ]
    assert len(variables) == 160
    one, two = bytes_on(place(variables, 2, partitioner), 2)
    assert one + two == sum(4 * math.prod(each.shape) for each in variables)
    assert abs(one - two) <= 0.05 * min(one, two)


def test_the_largest_are_placed_first() -> None:
    variables = [
        ServedVariable(name=name, shape=(size,), dtype="int8")
        for name, size in [("a", 1), ("b", 1), ("c", 2)]
    ]
    assert [(shard.name, shard.server) for shard in place(variables, 2)] == [("a", 1), ("b", 1), ("c", 0)]


VARIABLES = st.lists(
    st.builds(
        ServedVariable,
        name=st.text("abc/", min_size=1, max_size=3),
        shape=st.lists(st.integers(0, 9), max_size=3).map(tuple),
        dtype=st.sampled_from(["float32", "bfloat16", "int8"]),
        splittable=st.booleans(),
    ),
    unique_by=lambda each: each.name,
    max_size=12,
)


@hypothesis.given(VARIABLES, st.integers(1, 5), st.integers(1, 5), st.randoms())
def test_every_row_lies_once_and_everywhere_the_same(
    variables: list[ServedVariable], servers: int, shards: int, order: random.Random
) -> None:
    placed = place(variables, servers, FixedShardsPartitioner(shards))
    for variable in variables:
        parts = [shard for shard in placed if shard.variable == variable.name]
        rows = variable.shape[0] if variable.shape else 1
        assert list(itertools.chain(*(range(part.start, part.stop) for part in parts))) == list(range(rows))
        assert len(parts) == (max(1, min(shards, rows)) if variable.shape and variable.splittable else 1)
        assert len({part.stop - part.start for part in parts}) <= 2
    held = bytes_on(placed, servers)
    assert max(held) - min(held) <= max((shard.nbytes for shard in placed), default=0)
    order.shuffle(variables)
    assert place(variables, servers, FixedShardsPartitioner(shards)) == placed


def test_the_partitioner_is_not_asked_about_what_stays_whole() -> None:
    asked: list[Any] = []

    def partitioner(shape: tuple[int, ...], dtype: Any) -> list[int]:
        asked.append(shape)
        return [2, 1]

    variables = [
        ServedVariable(name="scalar", shape=(), dtype="int64"),
        ServedVariable(name="seed", shape=(2,), dtype="uint32", splittable=False),
        ServedVariable(name="table", shape=(4, 3), dtype="float32"),
    ]
    placed = place(variables, 2, partitioner)
    assert asked == [(4, 3)]
    assert [shard.name for shard in placed] == ["scalar", "seed", "table/part_0", "table/part_1"]
    assert [shard.nbytes for shard in placed] == [8, 8, 24, 24]


@pytest.mark.parametrize("counts", [(), [1, 2], [0, 1], [1.5], 3, None])
def test_what_a_partitioner_must_not_return_is_named(counts: Any) -> None:
    table = ServedVariable(name="table", shape=(4, 3), dtype="float32")
    with pytest.raises(ValueError, match=r"got: .* for variable 'table' of shape \(4, 3\)"):
        place([table], 2, lambda shape, dtype: counts)


def test_an_error_of_a_partitioner_names_the_variable() -> None:
    def partitioner(shape: tuple[int, ...], dtype: Any) -> list[int]:
        raise KeyError(shape)

    with pytest.raises(KeyError) as caught:
        place([ServedVariable(name="table", shape=(4, 2), dtype="float32")], 2, partitioner)
    assert caught.value.__notes__ == [
        "This came from variable_partitioner, for variable 'table' of shape (4, 2) and dtype float32."
    ]


def test_a_name_is_of_one_variable() -> None:
    twice = [ServedVariable(name="v", shape=(), dtype="float32")] * 2
    with pytest.raises(ValueError, match="Several variables are called 'v'"):
        place(twice, 2)


def test_there_is_a_server() -> None:
    with pytest.raises(ValueError, match="Argument `servers` must be positive. Received: 0"):
        place([], 0)


def test_what_servers_hold_already_counts() -> None:
    new = [ServedVariable(name="v", shape=(10,), dtype="float32")]
    assert [shard.server for shard in place(new, 3, held=[8, 0, 4])] == [1]
    halves = place(new, 3, lambda shape, dtype: [2], held=[0, 100, 16])
    assert [shard.server for shard in halves] == [0, 2]
