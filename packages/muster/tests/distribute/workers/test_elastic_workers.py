"""Virtual replicas: who computes which, and what is asked of those who say how many there are."""

import json

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from muster._errors import ClusterError, MismatchError
from muster.distribute import MultiWorkerMirroredStrategy
from muster.distribute.engine._split import Split, UnevenBatch
from muster.distribute.workers._elastic_loops import LoopSteps
from muster.distribute.workers._meeting import (
    MOST_RECORDED,
    StepReached,
    behind_by_a_result,
    of_record,
    packed_result,
    recorded,
    shares_of,
    source_of,
    unpacked_result,
)
from muster.distribute.workers._workers import ReplicaShare, SingleWorker, add_terms
from muster.launch._plan import JobShape


@pytest.mark.parametrize(("total", "workers"), [(1, 1), (4, 1), (4, 3), (5, 5), (7, 2)])
def test_workers_divide_virtual_replicas_in_order(total, workers):
    shares = shares_of(total, workers)
    numbers = [number for share in shares for number in range(share.first, share.first + share.count)]
    assert numbers == [*range(total)]
    assert max(share.count for share in shares) - min(share.count for share in shares) <= 1


def test_a_split_follows_the_share_of_its_worker():
    share = ReplicaShare(0, 2, 4)
    split = Split(share)
    batch = np.arange(8)
    assert split.worker_batch(batch).tolist() == [0, 1, 2, 3]
    share.first, share.count = 1, 3
    assert split.worker_batch(batch).tolist() == [2, 3, 4, 5, 6, 7]
    assert isinstance(split.worker_batch(np.arange(9)), UnevenBatch)


@pytest.mark.parametrize(
    "result",
    [
        [[1, None], [2, "x"]],
        [{"a": 1.5}],
        [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(3, np.int32), np.zeros((0, 4), bool)],
    ],
)
def test_the_result_of_a_collective_reaches_who_lacks_it(result):
    unpacked = unpacked_result(packed_result(result))
    assert len(unpacked) == len(result)
    for same, value in zip(unpacked, result, strict=True):
        np.testing.assert_array_equal(same, value)
        assert not isinstance(value, np.ndarray) or (same.dtype, same.shape) == (value.dtype, value.shape)


@pytest.mark.parametrize(
    "result",
    [
        0.25,
        [1.5, 0.1],
        {"loss": np.float32(2.5), "accuracy": float("nan")},
        np.arange(6, dtype=np.float32).reshape(2, 3),
        {"a": np.zeros((0, 4), bool), "b": (np.array(3, np.int32), np.ones(2, jnp.bfloat16))},
    ],
)
def test_the_result_of_a_call_reaches_who_leaves_it_out(result):
    found = of_record(msgspec.msgpack.decode(msgspec.msgpack.encode(recorded(result))))
    assert type(found) is type(result)
    jax.tree.map(np.testing.assert_array_equal, found, result)
    assert [np.asarray(each).dtype for each in jax.tree.leaves(found)] == [
        np.asarray(each).dtype for each in jax.tree.leaves(result)
    ]


def test_results_that_cannot_be_recorded():
    with pytest.raises(ValueError, match="its arrays have 262148 bytes, and a record has 262144 at most"):
        recorded(np.zeros(MOST_RECORDED // 4 + 1, np.float32))
    with pytest.raises(TypeError):
        recorded(iter([1]))


IN, OUT = (True, False), (False, False)
JOINS = StepReached(0, 0, False, True)


@pytest.mark.parametrize(
    ("places", "source", "behind"),
    [
        ([StepReached(5, 20, *IN), StepReached(5, 20, *IN)], 0, []),
        # In one step, one has completed a collective more: both make the step again.
        ([StepReached(5, 20, *IN), StepReached(5, 21, *IN)], 1, []),
        # The second has completed step 5 by its last collective, for which the first still waits.
        ([StepReached(5, 20, *IN), StepReached(6, 21, *IN), JOINS], 1, [0]),
        # Between steps, as at the end of an epoch, nothing is made again.
        ([StepReached(6, 20, *OUT), StepReached(6, 21, *IN)], 1, [0]),
        ([StepReached(6, 20, *OUT), StepReached(6, 21, *OUT)], 1, [0]),
        ([StepReached(6, 21, *OUT), StepReached(6, 21, *OUT)], 0, []),
        ([JOINS, JOINS], None, []),
    ],
)
def test_who_needs_a_result_of_whom(places, source, behind):
    assert source_of(places) == source
    assert behind_by_a_result(places) == behind


def test_who_lacks_more_than_one_result_cannot_go_on():
    with pytest.raises(MismatchError, match="different places"):
        behind_by_a_result([StepReached(5, 20, *IN), StepReached(7, 24, *IN)])


def digest_of_first() -> str:
    return "first"


def loop_steps() -> LoopSteps:
    steps = LoopSteps()
    steps.gives = lambda: ({"done": 2}, [np.arange(3)])
    return steps


def test_workers_join_at_the_first_batch_of_a_step_of_the_data_that_is_read_first():
    steps, data, other = loop_steps(), object(), object()
    assert steps.begins_step(data, digest_of_first)
    assert not steps.begins_step(data, digest_of_first)  # of several that one step takes
    steps.count += 1
    assert not steps.begins_step(other, digest_of_first)
    assert steps.begins_step(data, digest_of_first)
    assert not LoopSteps().begins_step(data, digest_of_first)  # nobody says what its state is


def test_a_loop_gives_its_state_only_where_a_step_begins():
    steps, data = loop_steps(), object()
    steps.new_seed = 5  # of the pass that has just begun
    steps.begins_step(data, digest_of_first)
    steps.new_seed = 6
    steps.begins_step(object(), digest_of_first)
    steps.count = 2
    assert steps.give() is None
    steps.digest = digest_of_first
    about, (array,) = steps.give()
    assert about == {"loop": {"done": 2}, "taken": 2, "batch": "first", "seed": 5}
    assert array.tolist() == [0, 1, 2]
    late = loop_steps()
    assert late.take(about) == {"done": 2}
    assert (late.count, late.expected_seed) == (2, 5)
    with pytest.raises(MismatchError, match="takes a step before it draws"):
        late.require_same_batch()
    assert late.begins_step(data, digest_of_first)
    assert late.expected_seed is None
    late.require_same_batch()


def test_who_joins_a_loop_with_another_batch_learns_what_to_do():
    late = loop_steps()
    late.take({"loop": {}, "taken": 2, "batch": "second", "seed": None})
    with pytest.raises(MismatchError, match=r"skip what was trained on, as by dataset.skip"):
        late.begins_step(object(), digest_of_first)


def test_terms_are_added_one_after_the_other():
    terms = [[np.float32([1e8])], [np.float32([1])], [np.float32([-1e8])]]
    assert add_terms(terms)[0].tolist() == [0.0]
    assert add_terms([terms[0], terms[2], terms[1]])[0].tolist() == [1.0]


def test_one_process_has_all_virtual_replicas():
    strategy = MultiWorkerMirroredStrategy(virtual_replicas=3)
    assert (strategy.num_replicas_in_sync, strategy.local_replicas) == (3, 3)
    assert strategy.input_context.num_input_pipelines == 3
    assert isinstance(strategy.workers, SingleWorker)


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True])
def test_a_number_of_virtual_replicas_that_is_none(value):
    with pytest.raises(ValueError, match="virtual_replicas must be a whole number from 1"):
        MultiWorkerMirroredStrategy(virtual_replicas=value)


def test_the_environment_is_named_if_it_is_wrong(monkeypatch):
    monkeypatch.setenv("MUSTER_VIRTUAL_REPLICAS", "few")
    with pytest.raises(
        ValueError, match="MUSTER_VIRTUAL_REPLICAS must be a whole number from 1, given: 'few'"
    ):
        MultiWorkerMirroredStrategy()


def test_more_workers_than_there_can_be_are_never_there(monkeypatch):
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    with pytest.raises(ValueError, match="min_workers=3 are never there: the cluster has 2"):
        MultiWorkerMirroredStrategy(virtual_replicas=4, min_workers=3)


def test_the_shape_of_an_elastic_job():
    shape = JobShape(workers=6, least=2)
    assert shape.elastic_environment == {"MUSTER_VIRTUAL_REPLICAS": "6", "MUSTER_MIN_WORKERS": "2"}
    assert JobShape(workers=2, virtual_replicas=8).elastic_environment["MUSTER_VIRTUAL_REPLICAS"] == "8"
    assert not JobShape(workers=2).elastic_environment


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2, "least": 3}, "At least 3 of 2 training tasks"),
        ({"workers": 4, "least": 3, "virtual_replicas": 2}, "2 virtual replicas are too few"),
        ({"workers": 2, "chief": True, "ps": 1, "least": 1}, "Beside parameter servers"),
    ],
)
def test_shapes_that_are_none(options, message):
    with pytest.raises(ClusterError, match=message):
        JobShape(**options)
