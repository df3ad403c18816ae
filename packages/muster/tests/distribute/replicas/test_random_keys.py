"""Typed random keys as arguments and results of functions and of run, under every strategy."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from random_keys import drawn, seen

from jobs import Job
from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    TPUStrategy,
    function,
    get_replica_context,
    get_strategy,
)
from muster.program import run_functions_eagerly

CHILD = Path(__file__).with_name("random_keys.py")
STRATEGIES = {
    "default": get_strategy,
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored 1": lambda: MirroredStrategy(["/cpu:0"]),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "central storage 2": lambda: CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
    "tpu 2": lambda: TPUStrategy(devices=jax.devices()[:2]),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def require_seen(found, replicas, local):
    """Compare what a process saw with what JAX draws without muster."""
    following, used = jax.random.split(jax.random.key(0))
    again = jax.random.split(following)[1]
    own = [drawn(jax.random.key(replica)) for replica in range(replicas)]
    gathered = [drawn(jax.random.split(jax.random.key(replica), 1)[0]) for replica in range(replicas)]
    for name, expected in {
        "same": [drawn(jax.random.key(0))] * len(local),
        "own": [own[replica] for replica in local],
        "sums": [drawn(used) * replicas, drawn(again) * replicas],
        "gathered": gathered,
    }.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, err_msg=name)


@pytest.mark.samples("mirrored 2", "default")
def test_keys_go_in_and_come_out(strategy):
    replicas = strategy.num_replicas_in_sync
    require_seen(seen(strategy), replicas, range(replicas))


@pytest.mark.samples("2")
@pytest.mark.processes
@pytest.mark.parametrize("devices", [1, 2])
def test_keys_of_two_workers(tmp_path, devices):
    with Job(tmp_path, [CHILD], worker=2) as job:
        for index in (0, 1):
            report = str(tmp_path / f"report{index}")
            job.start("worker", index, {"devices": devices, "report": report})
        job.all_end_well()
    for index in (0, 1):
        found = json.loads((tmp_path / f"report{index}").read_text())
        require_seen(found, 2 * devices, range(index * devices, (index + 1) * devices))


def test_a_function_is_traced_once_for_keys():
    traces = []

    @function
    def split(key):
        traces.append(key)
        return jax.random.split(key)

    first = split(jax.random.key(0))
    before = len(traces)
    second = split(first[0])
    assert len(traces) == before
    assert first.dtype == second.dtype == jax.random.key(0).dtype
    expected = jax.random.split(jax.random.split(jax.random.key(0))[0])
    np.testing.assert_array_equal(jax.random.key_data(second), jax.random.key_data(expected))


def test_keys_of_other_generators_keep_their_type():
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    key = jax.random.key(1, impl="rbg")
    results = strategy.experimental_local_results(strategy.run(lambda key: (key, drawn(key)), (key,)))
    for result, number in results:
        assert result.dtype == key.dtype
        np.testing.assert_array_equal(number, drawn(key))


def test_functions_that_run_eagerly_take_keys():
    run_functions_eagerly(True)
    try:
        key, number = function(lambda key: (key, drawn(key)))(jax.random.key(3))
    finally:
        run_functions_eagerly(False)
    np.testing.assert_array_equal(number, drawn(jax.random.key(3)))
    np.testing.assert_array_equal(drawn(key), number)


def test_keys_cannot_be_added(strategy):
    key = jax.random.key(0)
    with pytest.raises(TypeError, match="Random keys cannot be reduced"):
        strategy.reduce("sum", strategy.run(lambda key: key, (key,)), axis=None)
    with pytest.raises(TypeError, match="Random keys cannot be reduced"):
        strategy.run(lambda key: get_replica_context().all_reduce("sum", key), (key,))


def test_keys_are_gathered_in_a_replica_context_along_any_axis(strategy):
    def all_drawn(key):
        return jax.vmap(jax.vmap(drawn))(
            get_replica_context().all_gather(jax.random.split(key, (2, 1)), axis=1)
        )

    own = strategy.experimental_distribute_values_from_function(
        lambda context: jax.random.key(context.replica_id_in_sync_group)
    )
    keys = [jax.random.split(jax.random.key(i), 2) for i in range(strategy.num_replicas_in_sync)]
    expected = [[drawn(of_replica[row]) for of_replica in keys] for row in (0, 1)]
    for result in strategy.experimental_local_results(strategy.run(all_drawn, (own,))):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
