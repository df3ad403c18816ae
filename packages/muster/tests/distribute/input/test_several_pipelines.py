"""The input pipelines of a job are its own, however many workers read them."""

import dataclasses
import json

import numpy as np
import pytest

from linked import together
from muster._errors import PositionError
from muster.data import Dataset
from muster.distribute import InputContext
from muster.distribute.engine._split import unwrapped
from muster.distribute.input import OwnInput, Pipeline, Position, synchronized

SIZES = (5, 2, 4)  # batches of two rows


def pipeline_of(number, position=None):
    rows = 100 * number + np.arange(2 * SIZES[number])
    return Pipeline(Dataset.from_tensor_slices(rows).batch(2), position, past_end=True)


def steps(workers, per_step=1, local_replicas=1, position=None):
    """The rows of each step of so many workers, and the position of the first after each."""

    def work(link):
        contexts = InputContext(workers, link.rank).of_job(len(SIZES), per_step)
        assert {each.num_replicas_in_sync for each in contexts} == {len(SIZES) * per_step}
        numbers = [each.input_pipeline_id for each in contexts]
        places = [None if position is None else position.pipelines[number] for number in numbers]
        own = OwnInput([*map(pipeline_of, numbers, places)], per_step)
        with own, synchronized(link, local_replicas, own) as batches:
            taken = [(batch, batches.position()) for batch in batches]
            return taken, batches.position(1)

    of_workers = together(workers, work)
    rows = []
    for each in zip(*(taken for taken, _ in of_workers), strict=True):
        parts = [batch for batch, _ in each]
        whole = isinstance(parts[0], np.ndarray)  # else each worker has all rows
        rows.append(np.concatenate(parts).tolist() if whole else unwrapped(parts[0]).tolist())
    return rows, [place for _, place in of_workers[0][0]], of_workers[0][1]


@pytest.mark.parametrize("per_step", [1, 2])
@pytest.mark.parametrize(("workers", "local_replicas"), [(2, 1), (1, 1), (1, 2)])
def test_fewer_workers_have_the_batches_of_three(workers, local_replicas, per_step):
    expected, places, after_one = steps(3, per_step)
    assert len(expected) == -(-5 // per_step)
    assert sorted(sum(expected, [])) == [100 * n + i for n, size in enumerate(SIZES) for i in range(2 * size)]
    rows, own_places, _ = steps(workers, per_step, local_replicas)
    assert rows == expected
    assert [len(each.pipelines) for each in own_places] == [3] * len(rows)
    assert after_one == places[0]
    for number, place in enumerate(places, 1):  # as other workers have left it
        assert steps(workers, per_step, local_replicas, place)[0] == expected[number:]


def test_each_pipeline_is_read_by_one_worker():
    for workers in (1, 2, 3):
        found = [InputContext(workers, rank).of_job(3, 1) for rank in range(workers)]
        assert [each.input_pipeline_id for contexts in found for each in contexts] == [0, 1, 2]
        assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize(
    "position",
    [
        Position(),
        Position(pipelines=[{"elements": 3}, {"elements": 4}], per_step=2),
        Position(pipelines=[{"elements": 0}], begin=0, drawn=7, open=[2, 5]),
        Position(random=[1, [2]], drawn=3, orders=[[[5, 1]]]),
    ],
)
def test_a_position_is_what_its_json_says(position):
    again = Position.of_json(json.loads(json.dumps(position.to_json())))
    assert dataclasses.asdict(again) == dataclasses.asdict(position)


@pytest.mark.parametrize("other", [None, [], [{"elements": 3}], {"elements": 3, "returned": []}])
def test_a_position_of_another_version_is_refused(other):
    with pytest.raises(PositionError, match="another kind or version"):
        Position.of_json(other)
