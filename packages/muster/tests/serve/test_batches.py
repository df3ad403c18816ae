"""Which requests are computed together, and how."""

import numpy as np
import pytest

from muster import RequestError
from muster.serve._batches import BatchQueue, InferenceRequest, batch_sizes, compute


class Doubles:
    """A signature that notes the sizes of its batches, and refuses 13."""

    def __init__(self):
        self.sizes = []

    def __call__(self, x):
        self.sizes.append(len(x))
        if 13 in x:
            raise ValueError("13 is none of mine")
        return {"y": 2 * x}


def job(call, *values, width=None):
    array = np.array(values)
    if width:
        array = np.repeat(array[:, None], width, 1)
    return InferenceRequest(call, {"x": array}, len(values))


def queue(most_rows=4, most_jobs=10, wait_secs=0.0):
    return BatchQueue(most_rows=most_rows, most_jobs=most_jobs, wait_secs=wait_secs)


def test_jobs_that_wait_are_taken_together_up_to_the_limit():
    call, waiting = Doubles(), queue()
    jobs = [job(call, 1), job(call, 2, 3), job(call, 4, 5), job(call, 6)]
    for each in jobs:
        waiting.add(each, 0.0)
    assert waiting.take(0.0) == (jobs[:2], None)
    assert waiting.take(0.0) == (jobs[2:], None)
    assert waiting.take(0.0) == ([], None)
    assert len(waiting) == 0


def test_a_job_above_the_limit_is_taken_alone():
    call, waiting = Doubles(), queue()
    jobs = [job(call, *range(9)), job(call, 1)]
    for each in jobs:
        waiting.add(each, 0.0)
    assert waiting.take(0.0) == (jobs[:1], None)
    assert waiting.take(0.0) == (jobs[1:], None)


def test_jobs_of_other_signatures_shapes_or_without_rows_are_not_taken_together():
    call, other, waiting = Doubles(), Doubles(), queue()
    jobs = [
        job(call, 1),
        job(other, 1),
        job(call, 1, width=2),
        InferenceRequest(call, {}, None),
        InferenceRequest(call, {}, None),
    ]
    for at, each in enumerate([*jobs, job(call, 7)]):
        waiting.add(each, float(at))
    taken = [waiting.take(9.0)[0] for _ in jobs]
    assert [len(each) for each in taken] == [2, 1, 1, 1, 1]
    assert [each[0] for each in taken] == jobs


def test_a_job_waits_for_others_until_its_time_or_a_full_batch():
    call, waiting = Doubles(), queue(wait_secs=5.0)
    first, second, third = job(call, 1), job(call, 2), job(call, 3, 4)
    waiting.add(first, 10.0)
    assert waiting.take(11.0) == ([], 4.0)
    waiting.add(second, 12.0)
    assert waiting.take(15.0) == ([first, second], None)
    waiting.add(first, 20.0)
    waiting.add(second, 20.0)
    waiting.add(third, 20.0)
    assert waiting.take(20.0) == ([first, second, third], None)


def test_who_comes_when_too_many_wait_is_refused():
    waiting = queue(most_jobs=2)
    waiting.add(job(Doubles(), 1), 0.0)
    waiting.add(job(Doubles(), 1), 0.0)
    with pytest.raises(RequestError, match="busy") as refused:
        waiting.add(job(Doubles(), 1), 0.0)
    assert refused.value.status == 503
    waiting.take(0.0)
    waiting.add(job(Doubles(), 1), 0.0)


def test_sizes_are_few():
    assert batch_sizes(1) == [1]
    assert batch_sizes(8) == [1, 2, 4, 8]
    assert batch_sizes(100) == [1, 2, 4, 8, 16, 32, 64, 100]


def test_jobs_get_their_rows_back_and_batches_are_padded():
    call = Doubles()
    outcomes = compute([job(call, 1, 2), job(call, 3), job(call, 4, 5)], 8)
    assert [each["y"].tolist() for each in outcomes] == [[2, 4], [6], [8, 10]]
    assert call.sizes == [8]


def test_a_job_above_the_limit_is_computed_in_parts():
    call = Doubles()
    (outcome,) = compute([job(call, *range(10))], 4)
    assert outcome["y"].tolist() == list(range(0, 20, 2))
    assert call.sizes == [4, 4, 2]


def test_one_job_that_fails_does_not_fail_the_others():
    call = Doubles()
    outcomes = compute([job(call, 1), job(call, 13), job(call, 2)], 4)
    assert [outcomes[0]["y"].tolist(), outcomes[2]["y"].tolist()] == [[2], [4]]
    assert isinstance(outcomes[1], ValueError)
    assert call.sizes == [4, 1, 1, 1]


def test_jobs_without_rows_are_computed_as_they_are():
    (outcome,) = compute([InferenceRequest(Doubles(), {"x": np.arange(3)}, None)], 8)
    assert outcome["y"].tolist() == [0, 2, 4]


def test_outputs_with_other_rows_are_an_error_of_the_server():
    (outcome,) = compute([InferenceRequest(lambda x: {"y": x[:1]}, {"x": np.arange(2)}, 2)], 8)
    assert isinstance(outcome, RequestError)
    assert outcome.status == 500
