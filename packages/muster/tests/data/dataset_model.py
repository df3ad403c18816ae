"""Random pipelines beside a model in plain Python, and checks of datasets."""

import functools
import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from muster.data import CsvDataset, Dataset, NpzDataset, TFRecordDataset, TFRecordWriter

_FILES = tempfile.TemporaryDirectory()

Model = Callable[[tuple[int, ...]], list[Any]]
"""The elements of a pass, given how often each `repeat` around it has begun anew."""


@dataclass
class Pipeline:
    """A dataset, the model of it, and its text for failure messages."""

    dataset: Dataset
    model: Model
    text: str

    def __repr__(self) -> str:
        return self.text


def draw_block(key: tuple[int, ...], seed: int, size: int) -> tuple[Any, Any]:
    draws, rest = np.random.SeedSequence(seed % 2**64, spawn_key=key).spawn(2)
    generator = np.random.Generator(np.random.PCG64(draws))

    def slots() -> Any:
        while True:
            yield from generator.integers(size, size=4096).tolist()

    return slots(), np.random.Generator(np.random.PCG64(rest))


def shuffled(elements: list[Any], size: int, seed: int, key: tuple[int, ...]) -> list[Any]:
    """Shuffle with a buffer, in the plainest way."""
    slots, rest = draw_block(key, seed, size)
    buffer, incoming = elements[:size], elements[size:]
    out = []
    for element in incoming:
        slot = next(slots)
        out.append(buffer[slot])
        buffer[slot] = element
    return out + [buffer[i] for i in rest.permutation(len(buffer)).tolist()]


def batched(elements: list[Any], size: int, drop: bool) -> list[Any]:
    groups = [elements[i : i + size] for i in range(0, len(elements), size)]
    return [np.stack(group) for group in groups if len(group) == size or not drop]


def _source(draw: Any) -> tuple[Dataset, Model, str]:
    count = draw(st.integers(0, 23))
    values = [np.int32(i) for i in range(count)]
    kind = draw(st.sampled_from(["range", "arrays", "generator", "csv", "npz", "tfrecord"]))
    if kind in _FROM_FILES:
        return _FROM_FILES[kind](_files(kind, count)), lambda epoch: values, f"{kind}({count})"
    if kind == "range":
        return Dataset.range(count, output_type=np.int32), lambda epoch: values, f"range({count})"
    if kind == "arrays":
        array = np.arange(count, dtype=np.int32)
        return Dataset.from_tensor_slices(array), lambda epoch: values, f"arrays({count})"
    return (
        Dataset.from_generator(lambda: iter(range(count)), output_types=np.int32),
        lambda epoch: values,
        f"generator({count})",
    )


@functools.cache
def _files(kind: str, count: int) -> list[str]:
    """Numbers up to `count` in three files, the first of which is empty."""
    folder = Path(_FILES.name) / f"{kind}-{count}"
    folder.mkdir()
    for name, numbers in (("a", []), ("b", range(count // 3)), ("c", range(count // 3, count))):
        path = str(folder / name)
        if kind == "npz":
            np.savez(folder / f"{name}.npz", x=np.array(numbers, np.int32))
            (folder / f"{name}.npz").rename(path)
        elif kind == "csv":
            Path(path).write_text("".join(f"{number}\n" for number in numbers))
        else:
            with TFRecordWriter(path, "GZIP" if count % 2 else None) as writer:
                for number in numbers:
                    writer.write(str(number).encode())
    return [str(folder / name) for name in "abc"]


_FROM_FILES: dict[str, Callable[[list[str]], Dataset]] = {
    "csv": lambda files: CsvDataset(files, [np.int32]).map(lambda x: x),
    "npz": lambda files: NpzDataset(files).map(lambda row: row["x"]),
    "tfrecord": lambda files: TFRecordDataset(files, _compression(files)).map(
        lambda text: np.int32(int(text))
    ),
}


def _compression(files: list[str]) -> str | None:
    return "GZIP" if int(Path(files[0]).parent.name.split("-")[1]) % 2 else None


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """Draw a finite pipeline over int32 numbers."""
    dataset, model, text = _source(draw)
    is_batched = False
    for _ in range(draw(st.integers(0, 5))):
        names = ["take", "skip", "shard", "repeat", "shuffle", "traced", "python", "cache", "prefetch"]
        names += ["enumerate", "zip", "flat_map", "interleave"] + (
            ["unbatch", "rebatch"] if is_batched else ["batch", "filter", "concatenate"]
        )
        name = draw(st.sampled_from(names))
        dataset, model, step = _STEPS[name](draw, dataset, model)
        is_batched = (is_batched or name == "batch") and name != "unbatch"
        text += f".{step}"
    return Pipeline(dataset, model, text)


def _take(draw: Any, dataset: Dataset, model: Model) -> Any:
    count = draw(st.integers(0, 30))
    return dataset.take(count), lambda epoch: model(epoch)[:count], f"take({count})"


def _skip(draw: Any, dataset: Dataset, model: Model) -> Any:
    count = draw(st.integers(0, 10))
    return dataset.skip(count), lambda epoch: model(epoch)[count:], f"skip({count})"


def _shard(draw: Any, dataset: Dataset, model: Model) -> Any:
    shards = draw(st.integers(1, 4))
    index = draw(st.integers(0, shards - 1))
    return (
        dataset.shard(shards, index),
        lambda epoch: model(epoch)[index::shards],
        f"shard({shards}, {index})",
    )


def _repeat(draw: Any, dataset: Dataset, model: Model) -> Any:
    count = draw(st.integers(0, 3))

    def repeated(epoch: tuple[int, ...]) -> list[Any]:
        return [element for i in range(count) for element in model((*epoch, i))]

    return dataset.repeat(count), repeated, f"repeat({count})"


def _shuffle(draw: Any, dataset: Dataset, model: Model) -> Any:
    size, seed, again = draw(st.integers(1, 30)), draw(st.integers(-3, 3)), draw(st.booleans())
    return (
        dataset.shuffle(size, seed, again),
        lambda epoch: shuffled(model(epoch), size, seed, (0, *epoch) if again else ()),
        f"shuffle({size}, {seed}, {again})",
    )


def _batch(draw: Any, dataset: Dataset, model: Model) -> Any:
    size, drop = draw(st.integers(1, 6)), draw(st.booleans())
    return (
        dataset.batch(size, drop),
        lambda epoch: batched(model(epoch), size, drop),
        f"batch({size}, {drop})",
    )


def _unbatch(draw: Any, dataset: Dataset, model: Model) -> Any:
    return dataset.unbatch(), lambda epoch: [x for batch in model(epoch) for x in batch], "unbatch()"


def _rebatch(draw: Any, dataset: Dataset, model: Model) -> Any:
    sizes, drop = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)), draw(st.booleans())

    def rebatched(epoch: tuple[int, ...]) -> list[Any]:
        rows = [row for batch in model(epoch) for row in batch]
        batches = []
        for size in itertools.cycle(sizes):
            if len(rows) < (size if drop else 1):
                return batches
            batches.append(np.stack(rows[:size]))
            rows = rows[size:]

    return dataset.rebatch(sizes, drop), rebatched, f"rebatch({sizes}, {drop})"


def _traced(draw: Any, dataset: Dataset, model: Model) -> Any:
    return dataset.map(lambda x: x * 3 + 1), lambda epoch: [x * 3 + 1 for x in model(epoch)], "map(x * 3 + 1)"


def _python(draw: Any, dataset: Dataset, model: Model) -> Any:
    return (
        dataset.map(lambda x: np.negative(np.asarray(x))),
        lambda epoch: [-x for x in model(epoch)],
        "map(np.negative)",
    )


def _filter(draw: Any, dataset: Dataset, model: Model) -> Any:
    return (
        dataset.filter(lambda x: x % 3 != 1),
        lambda epoch: [x for x in model(epoch) if x % 3 != 1],
        "filter()",
    )


def _cache(draw: Any, dataset: Dataset, model: Model) -> Any:
    return dataset.cache(), lambda epoch: model(()), "cache()"


def _prefetch(draw: Any, dataset: Dataset, model: Model) -> Any:
    return dataset.prefetch(2), model, "prefetch(2)"


def _enumerate(draw: Any, dataset: Dataset, model: Model) -> Any:
    return (
        dataset.enumerate().map(lambda i, x: x + 100 * i.astype(x.dtype)),
        lambda epoch: [x + 100 * np.int32(i) for i, x in enumerate(model(epoch))],
        "enumerate().map(x + 100 * i)",
    )


def _concatenate(draw: Any, dataset: Dataset, model: Model) -> Any:
    count = draw(st.integers(0, 5))
    tail = [np.int32(i) for i in range(count)]
    return (
        dataset.concatenate(Dataset.range(count, output_type=np.int32)),
        lambda epoch: model(epoch) + tail,
        f"concatenate(range({count}))",
    )


def _zip(draw: Any, dataset: Dataset, model: Model) -> Any:
    other = Dataset.range(50, output_type=np.int32).shuffle(7, seed=5).repeat()

    def zipped(epoch: tuple[int, ...]) -> list[Any]:
        mine = model(epoch)
        passes = (shuffled([np.int32(i) for i in range(50)], 7, 5, (0, *epoch, i)) for i in itertools.count())
        return [b - a for a, b in zip(mine, itertools.chain.from_iterable(passes), strict=False)]

    return Dataset.zip((dataset, other)).map(lambda a, b: b - a), zipped, "zip(shuffled).map(b - a)"


def _flat_map(draw: Any, dataset: Dataset, model: Model) -> Any:
    return (
        dataset.flat_map(lambda x: Dataset.from_tensors(x).repeat(2)),
        lambda epoch: [copy for x in model(epoch) for copy in (x, x)],
        "flat_map(twice)",
    )


def _interleave(draw: Any, dataset: Dataset, model: Model) -> Any:
    cycle, block = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def interleaved(epoch: tuple[int, ...]) -> list[Any]:
        waiting = [[x] * 3 for x in model(epoch)]
        slots: list[list[Any] | None] = [None] * cycle
        out: list[Any] = []
        turn = 0
        while waiting or any(slot is not None for slot in slots):
            if slots[turn] is None and waiting:
                slots[turn] = waiting.pop(0)
            given = slots[turn]
            if given is not None:
                out += given[:block]
                # It is known to have ended when it is asked for more than it has.
                slots[turn] = given[block:] if len(given) >= block else None
            turn = (turn + 1) % cycle
        return out

    return (
        dataset.interleave(lambda x: Dataset.from_tensors(x).repeat(3), cycle, block),
        interleaved,
        f"interleave(thrice, {cycle}, {block})",
    )


_STEPS: dict[str, Callable[[Any, Dataset, Model], Any]] = {
    "take": _take,
    "skip": _skip,
    "shard": _shard,
    "repeat": _repeat,
    "shuffle": _shuffle,
    "batch": _batch,
    "unbatch": _unbatch,
    "rebatch": _rebatch,
    "traced": _traced,
    "python": _python,
    "filter": _filter,
    "cache": _cache,
    "prefetch": _prefetch,
    "enumerate": _enumerate,
    "concatenate": _concatenate,
    "zip": _zip,
    "flat_map": _flat_map,
    "interleave": _interleave,
}


def plain(element: Any) -> Any:
    """Return an element as nested lists and Python numbers, which compare with ==."""
    if isinstance(element, tuple):
        return tuple(plain(item) for item in element)
    if isinstance(element, dict):
        return {key: plain(item) for key, item in element.items()}
    return element.tolist() if isinstance(element, np.ndarray | np.generic) else element


def read(dataset: Any) -> list[Any]:
    """Read a dataset, or what is left of an iterator, to its end."""
    with dataset.iterator() if isinstance(dataset, Dataset) else dataset as iterator:
        return [plain(element) for element in iterator]


def check_resuming(dataset: Dataset, every: int = 7) -> None:
    """Check that a dataset resumes at every `every`-th position."""
    whole = read(dataset)
    for place in range(0, len(whole) + 1, every):
        with dataset.iterator() as iterator:
            for _ in range(place):
                next(iterator)
            assert read(dataset.iterator(iterator.position)) == whole[place:]


def open_files() -> list[str]:
    return [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
