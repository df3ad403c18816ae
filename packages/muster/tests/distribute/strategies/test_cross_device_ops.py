"""NcclAllReduce, HierarchicalCopyAllReduce and ReductionToOneDevice: what they take, and what travels."""

from typing import Any

import jax
import numpy as np
import pytest
from program_steps import started

import muster
from muster import keras
from muster.distribute import (
    HierarchicalCopyAllReduce,
    MirroredStrategy,
    NcclAllReduce,
    PerReplica,
    ReductionToOneDevice,
)
from muster.distribute.engine._packing import Packing
from muster.distribute.strategies._programs import traced_program
from muster.program.trace._program import Program
from recorded import cases, check_error

CLASSES = {"nccl": NcclAllReduce, "hierarchical": HierarchicalCopyAllReduce}


def is_ours(case: dict[str, Any]) -> bool:
    return case["name"].startswith("num_packs/")


@pytest.mark.parametrize("case", cases("communication_packs", is_ours))
def test_num_packs(case: dict[str, Any]) -> None:
    asked, expect = case["input"], case["expect"]
    made = CLASSES.get(case["name"].removeprefix("num_packs/").partition("_")[0])
    if made is not None and "error" in expect:
        with pytest.raises(ValueError, match="num_packs") as raised:
            made(asked["num_packs"])
        check_error(expect["error"], raised.value)
    elif made is not None:
        assert made(asked["num_packs"]).packing == Packing(num_packs=expect["num_packs"])
    else:
        packs: list[list[int]] = []

        def add(part: jax.Array) -> jax.Array:
            packs.append(part.tolist())
            return part * 2

        values = np.arange(sum(int(np.prod(shape)) for shape in asked["shapes"]))
        total = Packing(num_packs=asked["num_packs"]).adding(add)(values)
        assert packs == [pack for pack in expect["packs"] if pack]  # an empty one takes no collective
        np.testing.assert_array_equal(total, 2 * values)


def two_weights(batch):
    weights = [keras.Variable(np.ones(size, np.float32), name=f"w{size}") for size in (3, 5)]
    loss = keras.ops.mean(batch["x"]) * sum(keras.ops.sum(weight**2) for weight in weights)
    muster.minimize(keras.optimizers.SGD(0.1), loss)
    return {}, None


@pytest.mark.parametrize(
    ("ops", "collectives"),
    [
        (None, 1),
        (NcclAllReduce(), 1),
        (HierarchicalCopyAllReduce(num_packs=3), 3),
        (NcclAllReduce(num_packs=0), 3),  # two gradients, and the loss, which travels with them
        (ReductionToOneDevice(), 1),
    ],
)
def test_a_steps_gradients_travel_in_so_many_collectives(ops, collectives):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"], cross_device_ops=ops)
    batch = {"x": np.arange(4, dtype=np.float32)}
    program = Program(two_weights, batch)
    function = strategy.engine.engine.shard_mapped(traced_program(program, strategy), batch)
    assert str(jax.make_jaxpr(function)(program.initial, (), batch)).count("psum") == collectives
    state, step = started(strategy, program)
    state, _ = step(state, batch)
    for weight in ("w3", "w5"):
        np.testing.assert_allclose(state[weight], 1 - 0.1 * 1.5 * 2, rtol=1e-6)


def test_they_add_in_custom_loops():
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"], HierarchicalCopyAllReduce(2))
    value = PerReplica(np.array([[1.0, 2.0], [2.0, 4.0]], np.float32))
    np.testing.assert_array_equal(strategy.reduce("SUM", value), [3, 6])
    np.testing.assert_array_equal(strategy.reduce("MEAN", value), [1.5, 3])


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: NcclAllReduce(2.5), TypeError, "`num_packs` must be an integer, got 2.5"),
        (
            lambda: MirroredStrategy(["/cpu:0"], "nccl"),
            TypeError,
            "must be one of NcclAllReduce, .* got 'nccl'",
        ),
        (lambda: MirroredStrategy(["/cpu:0"], NcclAllReduce), TypeError, "must be one of NcclAllReduce"),
        (lambda: ReductionToOneDevice("/gpu:7"), ValueError, "no device '/gpu:7' here. JAX has: /cpu:0"),
        (lambda: ReductionToOneDevice("/cpu:0", max), ValueError, "must add its arguments"),
    ],
)
def test_mistakes_are_told(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_functions_that_add_are_accepted():
    assert ReductionToOneDevice("/cpu:1", lambda parts: jax.numpy.stack(parts).sum(0)).packing == Packing()
    assert ReductionToOneDevice(accumulation_fn=sum).packing == Packing()
