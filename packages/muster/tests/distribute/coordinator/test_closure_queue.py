"""Which closure runs where: rules, without threads."""

import random

import pytest

from muster.distribute.coordinator._queue import ClosureQueue


@pytest.fixture
def queue():
    return ClosureQueue(limit=100)


def test_closures_run_in_the_order_in_which_they_were_scheduled(queue):
    assert [queue.put(work) for work in "abc"] == [1, 2, 3]
    assert queue.take("worker 0") == (1, "a")
    assert queue.take("worker 1") == (2, "b")
    assert queue.end("worker 1", 2) == "b"
    assert queue.take("worker 1") == (3, "c")
    assert queue.take("worker 2") is None


def test_it_is_idle_once_everything_has_ended(queue):
    assert queue.idle
    queue.put("a")
    assert not queue.idle
    queue.take("worker 0")
    assert not queue.idle
    queue.end("worker 0", 1)
    assert queue.idle


def test_no_more_than_its_limit_wait():
    queue = ClosureQueue(limit=2)
    queue.put("a")
    assert not queue.full
    queue.put("b")
    assert queue.full
    queue.take("worker 0")
    assert not queue.full


def test_what_a_lost_worker_ran_is_the_next_to_run_under_its_number(queue):
    for work in "abc":
        queue.put(work)
    queue.take("worker 0")
    queue.take("worker 1")
    assert queue.lose("worker 0") == []
    assert queue.take("worker 1 again") == (1, "a")


def test_the_loss_of_a_worker_that_runs_nothing_changes_nothing(queue):
    queue.put("a")
    assert queue.lose("worker 0") == []
    assert queue.take("worker 1") == (1, "a")


def test_a_worker_may_have_several_and_ends_them_in_any_order(queue):
    for work in "abc":
        queue.put(work)
    assert [queue.take("worker 0"), queue.take("worker 0"), queue.take("worker 1")] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]
    assert queue.end("worker 0", 2) == "b"
    assert queue.watermark == 1
    assert queue.end("worker 0", 1) == "a"
    assert queue.watermark == 3


def test_all_that_a_lost_worker_had_is_the_next_to_run_in_order(queue):
    for work in "abcd":
        queue.put(work)
    for _ in range(3):
        queue.take("worker 0")
    assert queue.lose("worker 0") == []
    assert [queue.take("worker 1")[1] for _ in range(4)] == list("abcd")


def test_what_a_worker_gives_back_is_the_next_to_run_in_order(queue):
    for work in "abcd":
        queue.put(work)
    for _ in range(3):
        queue.take("worker 0")
    queue.give_back("worker 0", [2, 3])
    assert [queue.take("worker 1")[1] for _ in range(3)] == list("bcd")
    assert queue.end("worker 0", 1) == "a"


def test_what_a_worker_gives_back_while_a_queue_is_cancelled_is_cancelled(queue):
    for work in "ab":
        queue.put(work)
        queue.take("worker 0")
    queue.cancel()
    assert queue.give_back("worker 0", [1, 2]) == ["a", "b"]
    assert queue.idle
    assert not queue.cancelling


def test_a_worker_that_comes_back_is_used_again(queue):
    queue.put("a")
    queue.take("worker 0")
    queue.lose("worker 0")
    assert queue.take("worker 0") == (1, "a")
    assert queue.end("worker 0", 1) == "a"
    assert queue.idle


def test_an_error_is_kept_until_somebody_asks_and_the_others_go_on(queue):
    for work in "abc":
        queue.put(work)
    queue.take("worker 0")
    error = ValueError("boom")
    assert queue.end("worker 0", 1, error) == "a"
    assert queue.failed
    assert queue.take("worker 0") == (2, "b")
    assert queue.end("worker 0", 2) == "b"
    assert queue.cancel() == ["c"]
    assert queue.taken_error() is error
    assert not queue.failed
    assert queue.taken_error() is None


def test_the_first_of_several_errors_is_said(queue):
    for work in "ab":
        queue.put(work)
        queue.take(work)
    first = ValueError("first")
    queue.end("b", 2, first)
    queue.end("a", 1, ValueError("second"))
    assert queue.taken_error() is first


def test_what_runs_is_to_stop_while_a_queue_is_cancelled_and_nothing_begins(queue):
    for work in "abcd":
        queue.put(work)
    queue.take("worker 0")
    queue.take("worker 1")
    queue.end("worker 0", 1, ValueError())
    assert queue.cancel() == ["c", "d"]
    assert queue.cancelling
    queue.put("late")
    assert queue.take("worker 0") is None
    assert queue.end("worker 1", 2) == "b"
    assert not queue.cancelling
    assert queue.take("worker 0") == (5, "late")


def test_what_fails_while_a_queue_is_cancelled_is_no_new_error(queue):
    for work in "ab":
        queue.put(work)
        queue.take(work)
    first = ValueError("first")
    queue.end("a", 1, first)
    queue.cancel()
    assert queue.taken_error() is first
    queue.end("b", 2, ValueError("consequence"))
    assert not queue.failed


def test_what_a_lost_worker_ran_is_cancelled_with_the_queue(queue):
    for work in "ab":
        queue.put(work)
        queue.take(work)
    queue.end("a", 1, ValueError())
    queue.cancel()
    assert queue.lose("b") == ["b"]
    assert queue.idle
    assert not queue.cancelling


def test_a_queue_without_running_closures_is_cancelled_at_once(queue):
    queue.put("a")
    assert queue.cancel() == ["a"]
    assert not queue.cancelling
    queue.put("b")
    assert queue.take("worker 0") == (2, "b")


def test_the_watermark_is_below_everything_that_has_not_ended(queue):
    for work in "abcd":
        queue.put(work)
    assert queue.watermark == 1
    queue.take("worker 0")
    queue.take("worker 1")
    queue.end("worker 1", 2)
    assert queue.watermark == 1
    queue.lose("worker 0")
    queue.take("worker 1")
    queue.end("worker 1", 1)
    assert queue.watermark == 3
    queue.cancel()
    assert queue.watermark == 5


def test_no_closure_begins_while_another_one_misses_as_much_as_it_may():
    queue = ClosureQueue(limit=100, max_staleness=2)
    for work in "abcdef":
        queue.put(work)
    assert queue.take("slow") == (1, "a")
    assert queue.take("fast") == (2, "b")
    queue.end("fast", 2)
    assert queue.take("fast") == (3, "c")
    queue.end("fast", 3)
    assert queue.take("fast") is None
    queue.end("slow", 1)
    assert queue.take("fast") == (4, "d")


def test_without_staleness_closures_run_one_after_the_other_on_new_values():
    queue = ClosureQueue(limit=100, max_staleness=0)
    queue.put("a")
    queue.put("b")
    queue.take("worker 0")
    before = queue.generation
    assert queue.take("worker 1") is None
    queue.lose("worker 0")
    assert queue.take("worker 1") == (1, "a")
    assert queue.generation > before


def test_under_max_staleness_a_worker_has_one_closure_at_a_time():
    queue = ClosureQueue(limit=100, max_staleness=5)
    queue.put("a")
    queue.put("b")
    queue.take("worker 0")
    assert queue.take("worker 0") is None
    queue.end("worker 0", 1)
    assert queue.take("worker 0") == (2, "b")


def test_a_generation_begins_when_it_is_told(queue):
    before = queue.generation
    queue.put("a")
    assert queue.generation == before
    queue.renew()
    assert queue.generation == before + 1


@pytest.mark.parametrize("seed", range(50))
def test_random_events_lose_no_closure_and_end_none_twice(seed):
    rng = random.Random(seed)
    queue = ClosureQueue(limit=8)
    ended, cancelled, running, waiting = [], [], {}, []
    scheduled = 0
    for _ in range(400):
        match rng.choice(["put", "put", "take", "take", "end", "end", "fail", "lose", "cancel"]):
            case "put" if not queue.full and not queue.cancelling:
                scheduled += 1
                assert queue.put(f"work {scheduled}") == scheduled
                waiting.append(scheduled)
            case "take":
                worker = rng.randrange(4)
                taken = queue.take(worker)
                if queue.cancelling or not waiting:
                    assert taken is None
                else:
                    assert taken == (waiting[0], f"work {waiting[0]}")
                    running.setdefault(worker, []).append(waiting.pop(0))
            case ("end" | "fail") as how if running:
                worker = rng.choice(sorted(running))
                number = rng.choice(running[worker])
                running[worker].remove(number)
                error = ValueError() if how == "fail" else None
                assert queue.end(worker, number, error) == f"work {number}"
                ended.append(number)
            case "lose" if running:
                worker = rng.choice(sorted(running))
                numbers = running.pop(worker)
                if queue.cancelling:
                    assert queue.lose(worker) == [f"work {number}" for number in numbers]
                    cancelled += numbers
                else:
                    assert queue.lose(worker) == []
                    waiting = numbers + waiting
            case "cancel" if queue.failed:
                assert queue.cancel() == [f"work {number}" for number in waiting]
                cancelled += waiting
                waiting = []
                assert queue.taken_error() is not None
        running = {worker: numbers for worker, numbers in running.items() if numbers}
        assert queue.idle == (not running and not waiting)
        alive = [number for numbers in [*running.values(), waiting] for number in numbers]
        assert queue.watermark == min(alive, default=scheduled + 1)
        assert not queue.cancelling or running
    assert sorted([*ended, *cancelled, *alive]) == list(range(1, scheduled + 1))
