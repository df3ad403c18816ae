"""Gathering values whose sizes differ among the replicas, in one process and over workers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from linked import together
from muster import function
from muster.distribute import MirroredStrategy, Strategy, get_replica_context
from muster.distribute.engine._exchange import ExchangeEngine
from muster.distribute.engine._placement import Placement
from muster.program import corrected


def value(number, size, axis, dtype="float32"):
    shape = [2, 3]
    shape[axis] = size
    return (np.arange(np.prod(shape)).reshape(shape) + 10 * number).astype(dtype)


def joined(sizes, axis, dtype="float32"):
    parts = [value(number, size, axis, dtype) for number, size in enumerate(sizes)]
    return np.concatenate(parts, axis).tolist()


def of_replicas(strategy, sizes, axis, dtype="float32"):
    def of(context):
        number = context.replica_id_in_sync_group
        return value(number, sizes[number], axis, dtype)

    return strategy.experimental_distribute_values_from_function(of)


def all_gathered(strategy, values, axis):
    gather = function(
        lambda each: strategy.run(lambda x: get_replica_context().all_gather(x, axis=axis), args=(each,))
    )
    found = [np.asarray(each).tolist() for each in strategy.experimental_local_results(gather(values))]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.fixture
def strategy():
    return MirroredStrategy(["/cpu:0", "/cpu:1", "/cpu:2"])


@pytest.mark.parametrize(
    ("sizes", "axis", "dtype"),
    [([1, 3, 2], 0, "float32"), ([2, 0, 4], 1, "int32"), ([0, 0, 2], 0, "bool"), ([5, 1, 1], 1, "uint8")],
)
def test_values_of_different_sizes_are_joined(strategy, sizes, axis, dtype):
    values = of_replicas(strategy, sizes, axis, dtype)
    expected = joined(sizes, axis, dtype)
    assert np.asarray(strategy.gather(values, axis)).tolist() == expected
    assert all_gathered(strategy, values, axis) == expected
    assert [each.shape[axis] for each in strategy.experimental_local_results(values)] == sizes


def test_structures_and_what_is_computed_of_such_values(strategy):
    values = {"a": of_replicas(strategy, [1, 3, 2], 0), "b": [of_replicas(strategy, [2, 2, 1], 0)]}
    found = strategy.gather(values, axis=0)
    assert np.asarray(found["a"]).tolist() == joined([1, 3, 2], 0)
    assert np.asarray(found["b"][0]).tolist() == joined([2, 2, 1], 0)
    more = strategy.run(lambda x: x + 1, args=(values["a"],))
    assert np.asarray(strategy.gather(more, 0)).tolist() == (np.array(joined([1, 3, 2], 0)) + 1).tolist()


def test_a_mean_along_the_axis_counts_each_row_once(strategy):
    values = of_replicas(strategy, [1, 3, 2], 0)
    found = strategy.reduce("MEAN", values, axis=0)
    assert np.asarray(found).tolist() == pytest.approx(np.mean(joined([1, 3, 2], 0), 0))
    message = r"replica 0 has one of \[1, 3\], and replica 1 one of \[3, 3\]"
    with pytest.raises(ValueError, match=message):
        strategy.reduce("SUM", values, axis=None)
    with pytest.raises(ValueError, match=message):
        strategy.reduce("MEAN", values, axis=1)


def test_values_that_differ_elsewhere_are_refused_by_their_shapes(strategy):
    values = of_replicas(strategy, [2, 3, 2], 1)
    message = r"differ elsewhere, too: replica 0 has one of shape \[2, 2\], and replica 1 one of \[2, 3\]"
    with pytest.raises(ValueError, match=message):
        strategy.gather(values, axis=0)
    with pytest.raises(ValueError, match=message):
        all_gathered(strategy, values, 0)


def test_types_and_ranks_that_differ_are_refused(strategy):
    make = strategy.experimental_distribute_values_from_function
    with pytest.raises(ValueError, match=r"differ in type or rank: float32\[2\], int32\[2\], float32\[2\]"):
        make(lambda context: np.zeros(2, ["f4", "i4", "f4"][context.replica_id_in_sync_group]))
    with pytest.raises(ValueError, match=r"differ in type or rank: float32\[1\], float32\[1, 1\]"):
        make(lambda context: np.zeros((1,) * (1 + context.replica_id_in_sync_group), "float32"))
    with pytest.raises(TypeError, match="some of these values are text"):
        strategy.gather(make(lambda context: np.array(["a", "b"])), axis=0)


def test_workers_join_values_of_different_sizes():
    sizes = [1, 3, 2]

    def work(workers):
        device = SingleDeviceSharding(jax.devices()[workers.rank])
        strategy = Strategy(Placement(device, workers=workers), ExchangeEngine(None, workers), workers)
        found = []
        for axis in (0, 1):
            values = of_replicas(strategy, sizes, axis)
            found += [
                np.asarray(strategy.gather(values, axis)).tolist(),
                all_gathered(strategy, values, axis),
            ]
        own = jnp.ones(1 + workers.rank)  # also where each worker's code makes values of its own size
        found.append(all_gathered(strategy, own, 0))
        with pytest.raises(
            ValueError, match=r"replica 0 has one of shape \[2, 1\], and replica 1 one of \[2, 3\]"
        ):
            strategy.gather(of_replicas(strategy, sizes, 1), 0)
        return found

    expected = [*[joined(sizes, 0)] * 2, *[joined(sizes, 1)] * 2, [1.0] * 6]
    assert together(3, work) == [expected] * 3


def test_lengths_are_corrected_up_to_the_first_that_were_wrong():
    def made(*lengths):
        return [(own, tuple(all_), (own, 4), 0) for own, all_ in lengths]

    one, other = made((2, (2, 2)), (1, (1, 1))), made((3, (3, 3)), (1, (1, 1)))
    assert corrected([one, other]) == [(2, 3)]
    assert corrected([made((2, (2, 3))), made((3, (2, 3)))]) is None
