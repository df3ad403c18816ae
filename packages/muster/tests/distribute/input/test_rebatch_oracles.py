"""Which rows of which batch each replica of each worker computes, against what TensorFlow did.

Steps have the same rows, and each row is computed by one replica. Where TensorFlow's replicas have numbers of
rows that differ by one at most, the first ones more, each of ours has the very same rows. Elsewhere, where
TensorFlow leaves the last replicas few rows or none, ours share the rows of a step as equally as they can, so
that none is without: layers and losses of no rows give NaN. Fewer rows than replicas are computed by all of
them, and count once.
"""

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workers_in_threads import on_workers, rows_of

from departures import Departure, absent, error, named
from muster import OutOfRangeError
from muster.data import AutoShardPolicy, Dataset, Options, TextLineDataset
from muster.data.sharding._shard_files import shard_files
from muster.distribute import (
    InputContext,
    InputOptions,
    InputReplicationMode,
    MirroredStrategy,
    PerReplica,
    Strategy,
)
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._split import Split
from muster.distribute.workers._workers import ReplicaShare
from recorded import IN_REPOSITORY, cases, check_error, load, unused

# Families that have no counterpart here, by how their names begin.
NOT_OURS = {
    "legacy_rebatch/": "an operation inside of TensorFlow",
    "compute_batch_size/": "an operation inside of TensorFlow: the first batch of a pass says its size",
    "auto_shard/DATA/": "an operation inside of TensorFlow: here a worker takes rows of every batch",
    "auto_shard/OFF/": "likewise",
    "auto_shard/HINT/": "HINT is refused: Dataset.shard says the same, and OFF goes with it",
}


def policy_of(pipeline: list[Any]) -> str:
    return next((args[0] for op, *args in pipeline if op == "auto_shard_policy"), "AUTO")


def steps_of(pipeline: list[Any]) -> set[str]:
    """Return the names of a pipeline's operations."""
    return {op for op, *_ in pipeline}


def uses(*names: str) -> Any:
    return lambda asked: not steps_of(asked.get("pipeline", [])).isdisjoint(names)


def zips_other_sizes(asked: dict[str, Any]) -> bool:
    """Whether a pipeline puts batches of several sizes beside each other."""
    pipeline = asked.get("pipeline", [])
    zipped = [args[1] for op, *args in pipeline if op == "zip_with_batch"]
    return any(size not in zipped for size in (args[0] for op, *args in pipeline if op == "batch" and zipped))


def drops_steps(asked: dict[str, Any]) -> bool:
    """Whether replicas take elements of one shape in turns, and do not all have one at the end."""
    if "distribute_datasets_from_function" not in asked["api"] or "pipeline" not in asked:
        return False
    sizes = [(args[0], args[1]) for op, *args in asked["pipeline"] if op == "batch"]
    if any(not drop_remainder for _, drop_remainder in sizes) or asked["pipeline"][0][0] != "range":
        return False
    elements = asked["pipeline"][0][1] // (sizes[0][0] if sizes else 1)
    return elements % (asked.get("replicas") or asked["workers"] * asked["replicas_per_worker"]) > 0


def refused(asked: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any] | None:
    """What is said where rebatch cannot be: of elements without rows, and of sizes of 0."""
    if asked["api"] != "tf.data.Dataset.rebatch":
        return None
    if asked["pipeline"][-2][0] == "range":
        return error("ValueError", "rebatch cut the components of an element along their first axis")
    sizes = np.ravel(asked["pipeline"][-1][1])
    return error("ValueError", "batch_size must be at least 1, got 0") if 0 in sizes else None


DEPARTURES = (
    Departure("What cannot be is refused in words that say it, or at all: batches without rows.", refused),
    absent(NOT_OURS["auto_shard/HINT/"], uses("shard_hint")),
    absent("There are no ragged tensors.", uses("ragged_batch")),
    absent("Components of a batch are equally long: a replica's rows belong together.", zips_other_sizes),
    absent(
        "test_custom_loops.py has what is refused inside of run, and loops over datasets in functions.",
        lambda asked: "inside strategy.run" in asked["api"] or "inside tf.function" in asked["api"],
    ),
    absent(
        "TensorFlow drops steps in which a replica has none, or makes up a 0 for it; ours share.", drops_steps
    ),
    named(
        "mirrored2/from_function/per_replica_batch_size",
        absent("The rows that were recorded are not those of the pipeline that is told.", lambda asked: True),
    ),
)


def wanted(*beginnings: str) -> list[Any]:
    return cases("rebatch", lambda case: case["name"].startswith(beginnings), DEPARTURES)


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Writes lists of numbers to text files, once; returns their paths."""

    @functools.cache
    def write(contents: tuple[tuple[int, ...], ...]) -> list[str]:
        paths = []
        for number, lines in enumerate(contents):
            path = tmp_path / f"part-{number}.txt"
            path.write_text("".join(f"{line}\n" for line in lines))
            paths.append(str(path))
        return paths

    return lambda contents: write(tuple(map(tuple, contents)))


def number(line: Any) -> Any:
    return np.int64(int(line))


def built(pipeline: list[Any], files: Any, shard: InputContext | None = None) -> Dataset:
    """The pipeline of a case."""
    data: Any = None
    for op, *args in pipeline:
        match op:
            case "range":
                data = Dataset.range(args[0])
            case "generator":
                data = Dataset.from_generator(lambda n=args[0]: iter(range(n)), output_types=np.int64)
            case "generator_of_batches":
                ends = list(itertools.accumulate(args[0], initial=0))
                data = Dataset.from_generator(
                    lambda ends=ends: (np.arange(a, b) for a, b in itertools.pairwise(ends)),
                    output_types=np.int64,
                    output_shapes=[None],
                )
            case "text_files":
                data = TextLineDataset(files(args[0])).map(number)
            case "text_files_flat_map":
                data = Dataset.from_tensor_slices(files(args[0])).flat_map(TextLineDataset).map(number)
            case "text_files_interleave":
                names = Dataset.from_tensor_slices(files(args[0]))
                data = names.interleave(TextLineDataset, *args[1:]).map(number)
            case "list_files_interleave":
                pattern = str(Path(files(args[0])[0]).parent / "*.txt")
                names = Dataset.list_files(pattern, shuffle=False)
                data = names.interleave(TextLineDataset, *args[1:]).map(number)
            case "batch" | "batch_parallel":
                data = data.batch(args[0], args[1])
            case "padded_batch":
                data = data.padded_batch(args[0], drop_remainder=args[1])
            case "rebatch":
                data = data.rebatch(args[0], args[1])
            case "repeat" | "take" | "skip" | "prefetch" | "cache" | "unbatch":
                data = getattr(data, op)(*args)
            case "identity_map":
                data = data.map(lambda x: x)
            case "filter_even":
                data = data.filter(lambda x: x % 2 == 0)
            case "filter_batch_sum_gt":
                data = data.filter(lambda x, least=args[0]: x.sum() > least)
            case "to_dict":
                data = data.map(lambda x: {"x": x, "y": 10 * x})
            case "to_tuple_matrix":
                data = data.map(lambda x: (x, np.array([x, -x])))
            case "to_vector_len_mod3":
                data = data.map(lambda x: np.full(int(x) % 3, int(x)))
            case "zip_with_batch":
                data = Dataset.zip(data, Dataset.range(args[0]).batch(args[1]))
            case "concatenate_batched_range":
                data = data.concatenate(Dataset.range(100, 100 + args[0]).batch(args[1]))
            case "auto_shard_policy":
                options = Options()
                options.experimental_distribute.auto_shard_policy = AutoShardPolicy[args[0]]
                data = data.with_options(options)
            case _:
                raise NotImplementedError(op)
        if shard is not None and op in ("range", "generator"):
            data = data.shard(shard.num_input_pipelines, shard.input_pipeline_id)
    return data


def own_rows(batch: Any) -> tuple[bool, list[Any]]:
    """Whether all replicas have all rows, and each replica's rows: nested as the oracle's are."""
    if isinstance(batch, dict):
        parts = {key: own_rows(each) for key, each in batch.items()}
        whole = any(whole for whole, _ in parts.values())
        rows = zip(*(rows for _, rows in parts.values()), strict=True)
        return whole, [dict(zip(parts, values, strict=True)) for values in rows]
    if isinstance(batch, tuple):
        found = [own_rows(each) for each in batch]
        whole = any(whole for whole, _ in found)
        return whole, list(zip(*(rows for _, rows in found), strict=True))
    return rows_of(batch)


def told(rows: Any, several: bool) -> Any:
    """Rows of one replica in the oracle; as a tuple where they have several components."""
    return [rows] if isinstance(rows, int) else tuple(rows) if several else rows


def joined(parts: list[Any]) -> Any:
    """Rows of several replicas behind each other."""
    first = parts[0]
    if isinstance(first, dict):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(joined([part[place] for part in parts]) for place in range(len(first)))
    return [row for part in parts for row in part]


def length(rows: Any) -> int:
    while isinstance(rows, dict | tuple):
        rows = next(iter(rows.values())) if isinstance(rows, dict) else rows[0]
    return len(rows)


def nearly_equal(sizes: list[int]) -> bool:
    """Whether numbers of rows differ by one at most, and the larger ones come first."""
    return sizes[0] - sizes[-1] <= 1 and sizes == sorted(sizes, reverse=True)


def cut(rows: Any, parts: int) -> list[Any]:
    """Parts of rows that are as equal as can be, the longer ones first."""
    if isinstance(rows, dict):
        pieces = {key: cut(each, parts) for key, each in rows.items()}
        return [{key: each[part] for key, each in pieces.items()} for part in range(parts)]
    if isinstance(rows, tuple):
        return list(zip(*(cut(each, parts) for each in rows), strict=True))
    size, longer = divmod(len(rows), parts)
    ends = [0, *itertools.accumulate(size + (part < longer) for part in range(parts))]
    return [rows[start:end] for start, end in itertools.pairwise(ends)]


def expected(step: list[list[Any]], by_chunk: bool) -> tuple[bool, Any]:
    """What a step of TensorFlow's is here: whether it is given whole; its rows, or those of each replica."""
    workers, replicas = len(step), len(step[0])
    if by_chunk:  # TensorFlow's chunk w + r * W of a batch is worker w's, replica r's; ours is w * R + r
        rows = joined([worker[replica] for replica in range(replicas) for worker in step])
    else:  # each worker has rows of its own
        rows = joined([joined(worker) for worker in step])
    if length(rows) < workers * replicas:
        return True, rows
    parts = cut(rows, workers * replicas)
    ours = [parts[worker * replicas : (worker + 1) * replicas] for worker in range(workers)]
    # Where workers have replicas each, ours are in the order of the rows.
    as_theirs = not by_chunk or 1 in (workers, replicas)
    if as_theirs and nearly_equal([length(rows) for worker in step for rows in worker]):
        assert ours == step
    return False, ours


def compare(
    found: list[list[tuple[bool, list[Any]]]], steps: list[list[list[Any]]], by_chunk: bool, several: bool
) -> None:
    """Compare ``found[worker][step]`` with ``steps[step][worker][replica]``."""
    steps = [[[told(rows, several) for rows in worker] for worker in step] for step in steps]
    steps = [step for step in steps if any(length(rows) for worker in step for rows in worker)]
    assert [len(each) for each in found] == [len(steps)] * len(found)
    for at, step in enumerate(steps):
        whole, rows = expected(step, by_chunk)
        for worker, each in enumerate(found):
            ours_whole, ours = each[at]
            assert ours_whole is whole
            assert ours == ([rows] * len(ours) if whole else rows[worker])


def mirrored(count: int) -> Strategy:
    """So many replicas, to read input for: nothing is computed here."""
    return Strategy(Placement(None), DeviceEngine(), local_replicas=count)


def read(dataset: Any, most: int | None = None) -> list[tuple[bool, list[Any]]]:
    return [own_rows(batch) for batch in itertools.islice(iter(dataset), most)]


@pytest.mark.parametrize("case", wanted("mirrored"))
def test_replicas_of_one_process(case: dict[str, Any], files: Any) -> None:
    asked, expect = case["input"], case["expect"]
    api, count = asked["api"], asked["replicas"]
    strategy = mirrored(count)
    seen: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Any:
        seen.append(context)
        if "get_per_replica_batch_size" in api:
            size = context.get_per_replica_batch_size(7 if "(7)" in api else 8)
            return Dataset.range(20).batch(size)
        return [1, 2] if "[1, 2]" in api else built(asked["pipeline"], files)

    options = None
    if "PER_REPLICA" in api or "PER_REPLICA" in asked.get("options", ""):
        options = InputOptions(
            experimental_replication_mode=InputReplicationMode.PER_REPLICA,
            experimental_fetch_to_device="fetch True" in api,
            experimental_place_dataset_on_device="place_dataset_on_device True" in api,
        )
    elif "fetch_to_device False" in api:
        options = InputOptions(experimental_fetch_to_device=False)

    def make() -> Any:
        if "from_function" in api:
            return strategy.distribute_datasets_from_function(dataset_fn, options)
        dataset = [1, 2, 3] if "[1, 2, 3]" in api else built(asked["pipeline"], files)
        return strategy.experimental_distribute_dataset(dataset, options)

    if "get_next" in api:
        iterator = iter(make())
        if "optionals" in expect:
            optionals = [iterator.get_next_as_optional() for _ in expect["optionals"]]
            assert [each.has_value() for each in optionals] == [o["has_value"] for o in expect["optionals"]]
            found = [own_rows(each.get_value()) for each in optionals if each.has_value()]
            compare([found], [[o["value"]] for o in expect["optionals"] if o["has_value"]], True, False)
            return
        list(iterator)
        with pytest.raises(OutOfRangeError, match="End of sequence"):
            iterator.get_next()
        return
    if "error" in expect and expect["error"]["type"] != "StopIteration":
        kinds = {"IndexError": ValueError, "AttributeError": TypeError}  # TensorFlow's are accidents
        kind = kinds.get(expect["error"]["type"]) or {"NotImplementedError": NotImplementedError}.get(
            expect["error"]["type"], ValueError
        )
        with pytest.raises(kind) as raised:
            read(make())
        if expect["error"]["type"] in ("NotImplementedError", "ValueError"):
            assert str(raised.value).startswith(expect["error"]["message"])
        return
    dataset = make()
    for context, told in zip(seen, expect.get("contexts", []), strict=False):
        assert (context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync) == (
            told["num_input_pipelines"],
            told["input_pipeline_id"],
            told["num_replicas_in_sync"],
        )
    if "error" in expect:
        iterator = iter(dataset)
        list(iterator)
        with pytest.raises(StopIteration):
            next(iterator)
        return
    if "contexts" in expect:
        assert len(seen) == len(expect["contexts"])
    for epoch in expect.values() if "epoch1" in expect else [expect]:
        steps = [[step] for step in epoch["steps"]]
        # TensorFlow's replicas take batches of what is left, ours share it: the same rows.
        compare([read(dataset, asked.get("max_steps"))], steps, True, components(asked))


def components(asked: dict[str, Any]) -> bool:
    return any(op in ("to_tuple_matrix", "zip_with_batch") for op, *_ in asked["pipeline"])


def smaller_than_replicas(pipeline: list[Any], replicas: int) -> bool:
    """Whether a batch has fewer rows than there are replicas, and not all workers read the same batches.

    TensorFlow then lets replicas wait in turns, and now and then all of them. Here none waits for nothing.
    """
    reads_files = any("files" in op for op, *_ in pipeline)
    own = policy_of(pipeline) in ("OFF", "FILE") or (policy_of(pipeline) == "AUTO" and reads_files)
    return own and max((args[0] for op, *args in pipeline if op == "batch"), default=replicas) < replicas


def seen(found: list[list[tuple[bool, list[Any]]]]) -> list[int]:
    """All rows that count, over all workers and steps: of whole batches those of one replica."""
    rows: list[int] = []
    for step in zip(*found, strict=True):
        if step[0][0]:
            assert all(whole and all(own == step[0][1][0] for own in each) for whole, each in step)
            rows += step[0][1][0]
        else:
            rows += [row for whole, each in step for own in each for row in own if not whole]
    return sorted(rows)


@pytest.mark.parametrize("case", wanted("multi_worker", "mwms"))
def test_replicas_of_several_workers(case: dict[str, Any], files: Any) -> None:
    asked, expect = case["input"], case["expect"]
    workers, replicas, pipeline = asked["workers"], asked["replicas_per_worker"], asked["pipeline"]
    from_function = "from_function" in case["name"]
    sharded = case["name"].rpartition("/")[2].startswith("sharded")
    for op, *args in pipeline:
        if "files" in op:
            files(args[0])  # before the workers look

    def work(strategy: Strategy) -> Any:
        if from_function:
            dataset = strategy.distribute_datasets_from_function(
                lambda context: built(pipeline, files, context if sharded else None)
            )
        else:
            dataset = strategy.experimental_distribute_dataset(built(pipeline, files))
        return read(dataset, asked.get("max_steps"))

    found = on_workers(workers, replicas, work)
    if "error" in expect:
        assert all(isinstance(each, ValueError) for each in found), found
        return
    for each in found:
        if isinstance(each, Exception):
            raise each
    reads_files = any("files" in op for op, *_ in pipeline)
    if smaller_than_replicas(pipeline, workers * replicas) and not from_function:
        assert seen(found) == sorted(
            row for step in expect["steps"] for worker in step for replica in worker for row in replica
        )
        return
    own = (
        from_function
        or policy_of(pipeline) in ("OFF", "FILE")
        or (policy_of(pipeline) == "AUTO" and reads_files)
    )
    compare(found, expect["steps"], not own, components(asked))


@pytest.mark.parametrize("case", wanted("auto_shard/AUTO", "auto_shard/FILE"))
def test_files_of_workers(case: dict[str, Any], files: Any) -> None:
    asked, expect = case["input"], case["expect"]
    workers = asked["num_workers"]
    data = built(asked["pipeline"], files)
    if not any("files" in op for op, *_ in asked["pipeline"]):
        with pytest.raises(ValueError, match="reads no files"):
            shard_files(data, workers, 0)
        return
    shares = [shard_files(data, workers, worker) for worker in range(workers)]
    if "error" in expect:
        assert shares[0].fewest is not None
        assert shares[0].fewest < workers
        return
    assert [[batch.tolist() for batch in share.dataset] for share in shares] == expect["per_worker"]


@pytest.mark.parametrize("case", wanted("rebatch/"))
def test_rebatch(case: dict[str, Any], files: Any) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(ValueError, match="batch_size|rebatch") as raised:
            list(built(case["input"]["pipeline"], files))
        check_error(expect["error"], raised.value)
        return
    data = built(case["input"]["pipeline"], files)
    assert [batch.tolist() for batch in data] == expect["elements"]
    assert list(data.element_spec.shape) == expect["spec_shape"]


@pytest.mark.parametrize("case", wanted("batch_sizes_for_worker"))
def test_sizes(case: dict[str, Any]) -> None:
    asked = case["input"]
    workers, replicas = asked["num_workers"], asked["num_replicas_per_worker"]
    assert [
        Split(ReplicaShare(worker * replicas, replicas, workers * replicas)).batch_sizes(
            asked["global_batch_size"]
        )
        for worker in range(workers)
    ] == case["expect"]["per_worker"]


@pytest.mark.parametrize("case", wanted("input_context", "input_options"))
def test_contexts_and_options(case: dict[str, Any]) -> None:
    asked, expect = case["input"], case["expect"]
    if "InputOptions" in asked["api"]:
        options = InputOptions()
        assert {**vars(options), "experimental_replication_mode": "PER_WORKER"} == expect
        assert options.experimental_replication_mode is InputReplicationMode.PER_WORKER
    elif "num_replicas_in_sync" not in asked:
        context = InputContext()
        assert {**vars(context), "str": str(context)} == expect
    elif "error" in expect:
        with pytest.raises(ValueError, match="is not divisible by") as raised:
            InputContext(1, 0, asked["num_replicas_in_sync"]).get_per_replica_batch_size(
                asked["global_batch_size"]
            )
        assert str(raised.value).startswith(expect["error"]["message"].rstrip("."))
    else:
        context = InputContext(1, 0, asked["num_replicas_in_sync"])
        assert context.get_per_replica_batch_size(asked["global_batch_size"]) == expect["value"]


def test_families_without_a_counterpart_are_all_that_is_left_out() -> None:
    taken = (
        "mirrored",
        "multi_worker",
        "mwms",
        "auto_shard/AUTO",
        "auto_shard/FILE",
        "batch_sizes",
        "input_",
        "rebatch/",
    )
    names = [case["name"] for case in load("rebatch", IN_REPOSITORY)]
    assert [name for name in names if not name.startswith((*taken, *NOT_OURS))] == []


def test_every_departure_is_of_use() -> None:
    assert unused("rebatch", DEPARTURES) == []


def test_a_step_of_one_replica_is_no_per_replica_value() -> None:
    (batch,) = MirroredStrategy(["/cpu:0"]).experimental_distribute_dataset(Dataset.range(3).batch(4))
    assert not isinstance(batch, PerReplica)
