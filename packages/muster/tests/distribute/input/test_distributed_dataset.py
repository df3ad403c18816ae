"""Distributed datasets: files of workers, uneven ends, options, what is logged."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workers_in_threads import on_workers, rows_of

from muster._errors import DatasetError
from muster.data import AutoShardPolicy, Dataset, Options, TextLineDataset
from muster.distribute import (
    InputContext,
    InputOptions,
    InputReplicationMode,
    MirroredStrategy,
    Strategy,
    get_strategy,
)

FILE, DATA, OFF, AUTO = (AutoShardPolicy[name] for name in ("FILE", "DATA", "OFF", "AUTO"))


def with_policy(dataset: Dataset, policy: AutoShardPolicy) -> Dataset:
    options = Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)


def write(folder: Path, lengths: list[int]) -> tuple[list[Path], list[int]]:
    """Files of numbers, so many in each, and all of the numbers."""
    paths, start = [], 0
    for number, length in enumerate(lengths):
        paths.append(folder / f"part-{number}.txt")
        paths[-1].write_text("".join(f"{start + line}\n" for line in range(length)))
        start += length
    return paths, list(range(start))


def numbers(files: Any) -> Dataset:
    return TextLineDataset(files).map(lambda line: np.int64(int(line)))


def counted(found: list[Any]) -> list[int]:
    """The rows that count, of what each worker has found."""
    for each in found:
        if isinstance(each, Exception):
            raise each
    rows = []
    for step in zip(*found, strict=True):
        whole = step[0][0]
        assert all(each == whole for each, _ in step)
        rows += step[0][1][0] if whole else [row for _, own in step for replica in own for row in replica]
    return rows


def steps(make: Any) -> Any:
    return lambda strategy: [rows_of(batch) for batch in strategy.experimental_distribute_dataset(make())]


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("lengths", [[7, 1, 12], [0, 5, 9], [30, 0, 0], [0, 0, 0, 3], [4, 4, 4, 4, 4, 4]])
@pytest.mark.parametrize("batch", [6, 8, 13])
def test_files_of_different_lengths_are_read_once(
    tmp_path: Path, workers: int, replicas: int, lengths: list[int], batch: int
) -> None:
    paths, expected = write(tmp_path, lengths)
    found = on_workers(workers, replicas, steps(lambda: numbers(paths).batch(batch)))
    assert sorted(counted(found)) == expected


def test_passes_and_shuffles(tmp_path: Path) -> None:
    """Passes within the dataset and around it; the files are a worker's own in all of them."""
    _, expected = write(tmp_path, [5, 9, 2, 7])

    def make() -> Dataset:
        files = Dataset.list_files(str(tmp_path / "*.txt")).repeat(2)
        return files.interleave(numbers, 2).shuffle(10).batch(6).prefetch(2)

    def work(strategy: Strategy) -> Any:
        dataset = strategy.experimental_distribute_dataset(make())
        return [[rows_of(batch) for batch in dataset] for _ in range(3)]

    first, second = on_workers(2, 1, work)
    for at in range(3):
        assert sorted(counted([first[at], second[at]])) == sorted(2 * expected)
    orders = {tuple(row for _, own in each for row in own[0]) for each in first}
    assert len(orders) == 3


def test_a_cache_lasts_from_one_pass_to_the_next(tmp_path: Path) -> None:
    paths, expected = write(tmp_path, [3, 3])
    calls: list[str] = []

    def record(line: str) -> np.int64:
        calls.append(line)
        return np.int64(int(line))

    def work(strategy: Strategy) -> Any:
        dataset = strategy.experimental_distribute_dataset(
            TextLineDataset(paths).map(record).cache().batch(2)
        )
        return [rows_of(batch) for _ in range(3) for batch in dataset]

    found = on_workers(2, 1, work)
    assert sorted(counted(found)) == sorted(3 * expected)
    assert sorted(calls) == [str(number) for number in expected]


@pytest.mark.parametrize("policy", [AUTO, FILE, DATA, OFF])
def test_each_worker_says_once_what_it_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, policy: AutoShardPolicy
) -> None:
    paths, _ = write(tmp_path, [4] * 9)
    said = {
        FILE: [
            "worker 0 of 2 reads files part-0.txt, part-2.txt, part-4.txt, …: 5 of 9.",
            "worker 1 of 2 reads files part-1.txt, part-3.txt, part-5.txt, …: 4 of 9.",
        ],
        DATA: [
            "worker 0 of 2 reads all of its dataset, and computes examples 0, 1, 2 of each 6.",
            "worker 1 of 2 reads all of its dataset, and computes examples 3, 4, 5 of each 6.",
        ],
        OFF: [f"worker {worker} of 2 reads all of its dataset." for worker in range(2)],
    }

    def work(strategy: Strategy) -> None:
        dataset = strategy.experimental_distribute_dataset(with_policy(numbers(paths).batch(6), policy))
        for _ in range(2):
            list(dataset)

    with caplog.at_level(logging.INFO, "muster"):
        on_workers(2, 1, work)
    lines = sorted(record.message for record in caplog.records if " reads " in record.message)
    assert lines == said[FILE if policy is AUTO else policy]


def test_a_function_says_which_share_it_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    def dataset_fn(context: InputContext) -> Dataset:
        return Dataset.range(9).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2)

    with caplog.at_level(logging.INFO, "muster"):
        on_workers(2, 1, lambda strategy: list(strategy.distribute_datasets_from_function(dataset_fn)))
    assert "worker 1 of 2 reads examples 1, 3, 5, … of 9." in [record.message for record in caplog.records]


def errors(workers: int, make: Any) -> list[Any]:
    return on_workers(workers, 1, steps(make))


def test_file_needs_a_file_for_each_worker(tmp_path: Path) -> None:
    paths, expected = write(tmp_path, [3, 4])
    for error in errors(3, lambda: with_policy(numbers(paths).batch(6), FILE)):
        assert isinstance(error, DatasetError)
        assert "needs a file for each worker: there are 2 files, and 3 workers" in str(error)
    # AUTO lets all of them read both.
    assert sorted(counted(errors(3, lambda: numbers(paths).batch(6)))) == expected


def test_file_needs_files() -> None:
    for error in errors(2, lambda: with_policy(Dataset.range(9).batch(2), FILE)):
        assert isinstance(error, DatasetError)
        assert "range(0, 9) of int64 reads no files. Choose DATA, or OFF." in str(error)


def test_a_dataset_of_files_and_others_is_not_divided_by_files(tmp_path: Path) -> None:
    paths, expected = write(tmp_path, [3, 4])
    found = errors(2, lambda: numbers(paths).concatenate(Dataset.range(7, 9)).batch(4))
    assert sorted(counted(found)) == [*expected, 7, 8]


def test_workers_with_other_files_are_told(tmp_path: Path) -> None:
    paths, _ = write(tmp_path, [3, 4, 5])

    def work(strategy: Strategy) -> Any:
        own = paths[: 2 + strategy.input_context.input_pipeline_id]
        return list(strategy.experimental_distribute_dataset(numbers(own).batch(2)))

    for error in on_workers(2, 1, work):
        assert isinstance(error, DatasetError)
        assert "Worker 1 has other files than worker 0" in str(error)


def test_hint_is_refused() -> None:
    for error in errors(2, lambda: with_policy(Dataset.range(9).batch(2), AutoShardPolicy.HINT)):
        assert isinstance(error, DatasetError)
        assert "HINT is not supported" in str(error)


def test_dividing_twice_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def work(strategy: Strategy) -> Any:
        context = strategy.input_context
        dataset = Dataset.range(12).shard(context.num_input_pipelines, context.input_pipeline_id).batch(4)
        return [
            rows_of(batch) for batch in strategy.experimental_distribute_dataset(with_policy(dataset, policy))
        ]

    policy = AUTO
    on_workers(2, 1, work)
    assert "is divided by Dataset.shard, and AUTO divides the rest among the workers again" in caplog.text
    caplog.clear()
    policy = OFF
    assert sorted(counted(on_workers(2, 1, work))) == list(range(12))
    assert not caplog.text


def test_off_with_ends_that_differ() -> None:
    def make(strategy: Strategy) -> Dataset:
        worker = strategy.input_context.input_pipeline_id
        return with_policy(Dataset.range(10 * worker, 10 * worker + 5 + 4 * worker).batch(4), OFF)

    def work(strategy: Strategy) -> Any:
        return [rows_of(batch) for batch in strategy.experimental_distribute_dataset(make(strategy))]

    assert sorted(counted(on_workers(2, 1, work))) == [*range(5), *range(10, 19)]


def test_a_worker_without_a_batch_of_its_own_still_takes_part() -> None:
    def dataset_fn(context: InputContext) -> Dataset:
        rows = {"x": np.arange(5), "y": np.ones((5, 2), np.float32)}
        return Dataset.from_tensor_slices(rows).take(5 * context.input_pipeline_id).batch(2)

    def work(strategy: Strategy) -> Any:
        return list(strategy.distribute_datasets_from_function(dataset_fn))

    for worker, found in enumerate(on_workers(2, 1, work)):
        rows = [batch["x"].values[0].tolist() for batch in found]
        assert rows == [[worker], [2 + worker], [4]]  # the last row is given to both, and counts once
        assert [batch["y"].replicated for batch in found] == [False, False, True]
    empty = on_workers(
        2, 1, lambda s: list(s.distribute_datasets_from_function(lambda c: Dataset.range(0).batch(2)))
    )
    assert empty == [[], []]


def pairs(ones: int, others: int, batch: int = 0) -> Dataset:
    """A batch of ones with one of others, such as images with labels and without."""
    return Dataset.zip(Dataset.range(ones).batch(batch or ones), Dataset.range(others).batch(others))


def test_components_of_different_lengths_are_divided_each_on_its_own() -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    ((one, other),) = strategy.experimental_distribute_dataset(pairs(6, 4))
    assert [each.tolist() for each in one.values] == [[0, 1, 2], [3, 4, 5]]
    assert [each.tolist() for each in other.values] == [[0, 1], [2, 3]]

    def work(strategy: Strategy) -> Any:
        ((one, other),) = strategy.experimental_distribute_dataset(pairs(6, 4))
        return one.values[0].tolist(), other.values[0].tolist()

    assert on_workers(2, 1, work) == [([0, 1, 2], [0, 1]), ([3, 4, 5], [2, 3])]


@pytest.mark.parametrize(("ones", "others"), [(6, 3), (3, 6), (6, 1)])
def test_such_a_batch_that_cannot_be_shared_equally_is_replicated(
    ones: int, others: int, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    found = list(strategy.experimental_distribute_dataset(pairs(ones, others).repeat(2)))
    assert len(found) == 2
    for one, other in found:
        assert (one.replicated, other.replicated) == (True, True)
        assert [each.tolist() for each in one.values] == [list(range(ones))] * 2
    assert "each computes all of it, and it counts once" in caplog.text


def test_options() -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    contexts: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Dataset:
        contexts.append(context)
        start = 10 * context.input_pipeline_id
        return Dataset.range(start, start + 3 + context.input_pipeline_id).batch(2)

    per_replica = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)
    dataset = strategy.distribute_datasets_from_function(dataset_fn, per_replica)
    assert contexts == [InputContext(2, 0, 2), InputContext(2, 1, 2)]
    found = [rows_of(batch) for batch in dataset]
    assert found[0] == (False, [[0, 1], [10, 11]])
    assert sorted(counted([found])) == [0, 1, 2, 10, 11, 12, 13]
    placed = InputOptions(
        experimental_replication_mode=InputReplicationMode.PER_REPLICA,
        experimental_fetch_to_device=False,
        experimental_place_dataset_on_device=True,
    )
    strategy.distribute_datasets_from_function(dataset_fn, placed)
    with pytest.raises(ValueError, match="you must also specify `PER_REPLICA`"):
        strategy.distribute_datasets_from_function(
            dataset_fn, InputOptions(experimental_place_dataset_on_device=True)
        )
    with pytest.raises(
        NotImplementedError, match="PER_REPLICA is only supported in `distribute_datasets_from_f"
    ):
        strategy.experimental_distribute_dataset(Dataset.range(4).batch(2), per_replica)
    with pytest.raises(TypeError, match="is an InputReplicationMode, got 'PER_REPLICA'"):
        InputOptions(experimental_replication_mode="PER_REPLICA")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a positive number, got 0"):
        InputOptions(experimental_per_replica_buffer_size=0)


def test_arrays_become_a_dataset() -> None:
    arrays = {"x": np.arange(6.0).reshape(3, 2), "y": np.arange(3)}
    for make in (
        get_strategy().experimental_make_numpy_dataset,
        get_strategy().make_experimental_numpy_dataset,
    ):
        batch = next(iter(make(arrays).batch(3)))
        np.testing.assert_array_equal(batch["x"], arrays["x"])


def test_the_wait_for_input_is_measured_and_told(caplog: pytest.LogCaptureFixture) -> None:
    def slow(x: Any) -> Any:
        time.sleep(0.02)
        return np.negative(x)

    iterator = iter(get_strategy().experimental_distribute_dataset(Dataset.range(6).map(slow).batch(2)))
    with caplog.at_level(logging.INFO, "muster.distribute"):
        for _ in iterator:
            time.sleep(0.01)
    assert 0.12 <= iterator.input_wait_secs
    assert iterator.steps_taken == 3
    (line,) = [record.message for record in caplog.records if "Waited" in record.message]
    assert line.startswith(f"Waited {iterator.input_wait_secs:.3f} s of ")
    assert line.endswith("for the input of 3 steps.")
    with pytest.raises(StopIteration):
        iterator.get_next()
