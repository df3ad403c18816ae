"""Variables that are read on demand: each replica has a value of its own, and all see what these come to."""

import numpy as np
import pytest

from muster import keras
from muster.data import Dataset
from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    PerReplica,
    function,
    get_replica_context,
)

STRATEGIES = {
    "mirrored": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "central storage": lambda: CentralStorageStrategy(["/cpu:1", "/cpu:2"]),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def counter(strategy, initial=0, dtype="int32", aggregation="sum"):
    with strategy.scope():
        return keras.Variable(
            initial, dtype=dtype, aggregation=aggregation, synchronization="on_read", trainable=False
        )


def own(strategy, variable):
    return [each.tolist() for each in strategy.experimental_local_results(variable)]


def test_each_replica_counts_for_itself_from_step_to_step(strategy):
    seen = counter(strategy)

    def step(x):
        seen.assign_add(keras.ops.sum(x))
        return seen.value

    call = function(lambda x: strategy.run(step, (x,)))
    for turn in (1, 2, 3):
        counts = call(PerReplica(np.array([[1, 2], [10, 20]], np.int32)))
        assert [int(each) for each in counts.values] == [3 * turn, 30 * turn]
        assert int(seen.value) == 33 * turn
    assert own(strategy, seen) == [9, 90]
    assert int(strategy.reduce("SUM", seen)) == 99


def test_what_is_assigned_between_steps_is_shared_out(strategy):
    seen = counter(strategy)
    strategy.run(lambda: seen.assign_add(1))
    seen.assign(7)  # as a checkpoint does
    assert own(strategy, seen) == [4, 3]
    strategy.run(lambda: seen.assign_add(1))
    assert (int(seen.value), own(strategy, seen)) == (9, [5, 4])
    part = counter(strategy, 3.0, "float32")
    assert own(strategy, part) == [1.5, 1.5]


def test_code_for_all_replicas_sees_and_assigns_what_they_come_to(strategy):
    total, average = counter(strategy), counter(strategy, 0.0, "float32", "mean")

    def step():
        number = get_replica_context().replica_id_in_sync_group + 1
        total.assign_add(number)
        average.assign(keras.ops.cast(number, "float32"))
        get_replica_context().merge_call(lambda s: merged.append(total.value + 0))

    @function
    def call():
        strategy.run(step)
        before = total + 0, average + 0
        total.assign(10)
        average.assign_add(1.0)
        return before

    merged = []
    assert [float(each) for each in call()] == [3.0, 1.5]
    assert (int(total.value), own(strategy, total)) == (10, [5, 5])
    assert (float(average.value), own(strategy, average)) == (2.5, [2.0, 3.0])
    assert merged


def test_a_batch_that_replicas_do_not_share_counts_once(strategy):
    seen = counter(strategy)
    data = strategy.experimental_distribute_dataset(Dataset.range(9).batch(4))
    for batch in data:
        strategy.run(lambda x: seen.assign_add(keras.ops.size(x)), (batch,))
    assert int(seen.value) == 9
    assert own(strategy, seen) == [5, 4]


def test_what_replicas_cannot_agree_on_is_refused(strategy):
    seen = counter(strategy)
    with strategy.scope(), pytest.raises(ValueError, match="does not support `assign_add`"):
        seen.assign_add(1)
    with pytest.raises(ValueError, match="does not support `assign_add`"):
        function(lambda: strategy.run(lambda: seen.assign_add(1)) and seen.assign_add(1))()
    with strategy.scope(), pytest.raises(ValueError, match="non-floating dtype is not supported"):
        keras.Variable(1, dtype="int32", aggregation="mean", trainable=False)
    with strategy.scope(), pytest.raises(ValueError, match="synchronization mode is not supported"):
        keras.Variable(1.0, synchronization="none")
    assert int(seen.value) == 0


def test_what_the_first_replica_assigns_counts_beside_what_each_keeps():
    strategy = STRATEGIES["mirrored"]()
    seen = counter(strategy, 0.0, "float32")
    with strategy.scope():
        count = keras.Variable(0.0, aggregation="only_first_replica")
    strategy.run(lambda: (seen.assign_add(1.0), count.assign_add(1.0)) and None)
    assert (float(seen), own(strategy, seen)) == (2, [1, 1])
    assert (float(count), own(strategy, count)) == (1, [1, 1])
