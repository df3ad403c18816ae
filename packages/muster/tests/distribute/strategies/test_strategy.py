"""The Strategy ABC with default and OneDevice."""

import jax
import numpy as np
import pytest
from program_steps import started

from muster._keras import keras
from muster.distribute import (
    InputContext,
    MirroredStrategy,
    OneDeviceStrategy,
    Strategy,
    experimental_set_strategy,
    get_strategy,
    has_strategy,
)
from muster.program.trace._program import Program


def test_the_default_strategy_is_one_object_and_counts_as_none():
    assert get_strategy() is get_strategy()
    assert not has_strategy()
    with get_strategy().scope() as strategy:
        assert strategy is get_strategy()
        assert not has_strategy()
    assert get_strategy().num_replicas_in_sync == 1
    assert get_strategy().input_context == InputContext(1, 0, 1)


def test_scopes_nest_for_the_same_strategy_only():
    one, other = OneDeviceStrategy("/cpu:0"), OneDeviceStrategy("/cpu:0")
    with one.scope(), one.scope():
        assert get_strategy() is one
        assert has_strategy()
        with (
            pytest.raises(RuntimeError, match="Mixing different tf.distribute.Strategy objects"),
            other.scope(),
        ):
            pass
        assert get_strategy() is one
    assert not has_strategy()


@pytest.mark.parametrize(
    "name", ["/cpu:0", "cpu:0", "CPU:0", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"]
)
def test_device_strings(name):
    assert OneDeviceStrategy(name).placement.sharding.device_set == {jax.devices("cpu")[0]}


def test_no_line_makes_more_accelerators():
    with pytest.raises(ValueError, match=r"no device '/gpu:1' here\. JAX has: [^.]*\.$"):
        OneDeviceStrategy("/gpu:1")


def test_wrong_devices_are_named():
    with pytest.raises(ValueError, match="'nonsense' cannot be read"):
        OneDeviceStrategy("nonsense")
    with pytest.raises(ValueError, match=r"no device '/cpu:17' here. JAX has: /cpu:0"):
        OneDeviceStrategy("/cpu:17")
    with pytest.raises(ValueError, match="no device '/tpu:0'"):
        OneDeviceStrategy("/tpu:0")


def counting_step(batch):
    count = keras.Variable(0.0, trainable=False, name="count")
    count.assign_add(batch["x"].sum())
    return {"count": count.value}, None


@pytest.mark.parametrize("strategy", [get_strategy(), OneDeviceStrategy("/cpu:0")], ids=str)
def test_a_program_runs_and_is_compiled_once_for_each_shape(strategy: Strategy):
    executables = {}
    batch = {"x": np.ones(3, np.float32)}
    for _ in range(2):  # a model that is built anew
        program = Program(counting_step, batch)
        state, step = started(strategy, program, executables)
        state, _ = step(state, batch)
        state, outputs = step(state, {"x": np.ones(2, np.float32)})
        assert float(outputs["count"]) == 5.0
    assert len(executables) == 2


def test_a_program_calls_its_own_functions():
    executables, called = {}, []
    batch = {"x": np.ones(3, np.float32)}
    for number in range(2):  # the programs compute the same, and call different functions

        def calling_step(batch, number=number):
            jax.debug.callback(lambda _: called.append(number), batch["x"])
            return counting_step(batch)

        state, step = started(get_strategy(), Program(calling_step, batch), executables)
        jax.block_until_ready(step(state, batch))
        jax.effects_barrier()
    assert called == [0, 1]


def test_per_replica_batch_sizes():
    assert InputContext(2, 1, 4).get_per_replica_batch_size(64) == 16
    with pytest.raises(ValueError, match="65 is not divisible by `num_replicas_in_sync` 4"):
        InputContext(2, 1, 4).get_per_replica_batch_size(65)


def test_a_strategy_for_the_whole_program():
    first, second = MirroredStrategy(["/cpu:0", "/cpu:1"]), OneDeviceStrategy("/cpu:0")
    try:
        for strategy in (first, second):
            experimental_set_strategy(strategy)
            assert get_strategy() is strategy
            with strategy.scope(), pytest.raises(RuntimeError, match="Must not be called inside"):
                experimental_set_strategy(None)
            assert get_strategy() is strategy
    finally:
        experimental_set_strategy(None)
    assert not has_strategy()
    with first.scope(), pytest.raises(RuntimeError, match="Must not be called inside"):
        experimental_set_strategy(second)
    experimental_set_strategy(None)


def test_run_has_the_name_that_it_had_before():
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    results = strategy.experimental_run_v2(lambda x, y: x + y, args=(np.float32(1),), kwargs={"y": 2.0})
    assert [float(each) for each in results.values] == [3, 3]
