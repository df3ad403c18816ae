"""Measure tables of rows as a parameter server holds them: looking up, updating, memory and snapshots.

What is measured are the tables alone, on one core and without connections.
"""

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bench import _results
from muster.ps.tables import Constant, DenseTable, HashTable, Keeping, SlotSpec, TableSpec, write_pieces
from muster.ps.tables.updates import CompiledRowUpdate, export_row_update

DIM, IDS = 32, 64 * 26
SIZES = (10**6, 10**7)
ROUNDS, STEPS, FILL = 30, 10, 1 << 16
SPEC = TableSpec(
    name="table", shape=(DIM,), initial=Constant(0.0), slots=(SlotSpec("accumulator", (DIM,), initial=0.1),)
)


def adagrad(rows, accumulator, gradients, rate):
    accumulator = accumulator + gradients**2
    return rows - rate * gradients / jnp.sqrt(accumulator), accumulator


def dense(rows: int, update: CompiledRowUpdate) -> DenseTable:
    """Make a table of ids from 0."""
    table = DenseTable(SPEC, 0, rows, update)
    table.initialize()
    return table


def hashed(rows: int, update: CompiledRowUpdate) -> HashTable:
    """Make a table of the ids that `as_hashed` gives."""
    table = HashTable(SPEC, Keeping(), update)
    for start in range(0, rows, FILL):
        ids = as_hashed(np.arange(start, min(start + FILL, rows)))
        table.apply(ids, np.zeros((len(ids), DIM), np.float32), [0.1])
    return table


def as_hashed(ids: np.ndarray) -> np.ndarray:
    return ids * 0x5851F42D4C957F2D  # all different, of 64 bits


KINDS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "dense": (dense, lambda ids: ids),
    "hashed": (hashed, as_hashed),
}


class Contestant:
    """A table of some kind and size, and ids of its rows.

    Attributes:
        memory: The resident memory of the process that it takes, in times of its rows and slots.
    """

    def __init__(self, kind: str, rows: int, update: CompiledRowUpdate) -> None:
        make, given = KINDS[kind]
        gc.collect()
        before = resident_bytes()
        self.table = make(rows, update)
        self.memory = (resident_bytes() - before) / (rows * SPEC.row_nbytes)
        rng = np.random.default_rng(0)
        self._ids = [given(rng.integers(0, rows, IDS)) for _ in range(STEPS * ROUNDS)]
        self._gradients = rng.normal(size=(IDS, DIM)).astype(np.float32)

    def seconds(self, number: int) -> tuple[float, float, float]:
        """Return the seconds of a pull and of a push, by the clock and by the processor, in one round."""
        some = self._ids[number * STEPS : (number + 1) * STEPS]
        start, busy = time.perf_counter(), time.process_time()
        for ids in some:
            self.table.look_up(ids)
        pulled = time.process_time()
        for ids in some:
            self.table.apply(ids, self._gradients, [0.01])
        pushed, end = time.process_time(), time.perf_counter()
        return (end - start) / STEPS, (pulled - busy) / STEPS, (pushed - pulled) / STEPS


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(kind: str, update: CompiledRowUpdate) -> dict[str, Any]:
    """Compare the sizes of tables of a kind, in turn."""
    contestants = {rows: Contestant(kind, rows, update) for rows in SIZES}
    times: dict[int, list[tuple[float, float, float]]] = {rows: [] for rows in SIZES}
    for number in range(ROUNDS):
        for rows, contestant in contestants.items():
            times[rows].append(contestant.seconds(number))
    figures: dict[str, Any] = {}
    for rows, contestant in contestants.items():
        wall, pull, push = (statistics.median(each) for each in zip(*times[rows], strict=True))
        pulled, pushed = IDS / pull, IDS / push
        figures[str(rows)] = {
            "both_ms": 1e3 * wall,
            "pull_busy_ms": 1e3 * pull,
            "push_busy_ms": 1e3 * push,
            "pulled_rows_per_core_s": pulled,
            "pushed_rows_per_core_s": pushed,
            "memory": contestant.memory,
        }
        cells = [f"{rows:,}", *(f"{1e3 * each:.2f}" for each in (wall, pull, push))]
        cells += [f"{pulled:,.0f}", f"{pushed:,.0f}", f"{contestant.memory:.2f}"]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    ratios = [sum(large[1:]) / sum(small[1:]) for small, large in zip(*times.values(), strict=True)]
    figures["times_as_busy"] = statistics.median(ratios)
    return figures | {"snapshots": snapshots(contestants[SIZES[0]])}


def snapshots(contestant: Contestant) -> dict[str, Any]:
    """Write all rows of a table, then what a round changes; push meanwhile."""
    figures: dict[str, Any] = {}
    table = contestant.table
    for number, name in enumerate(("whole", "changes")):
        snapshot = table.snapshot(whole=name == "whole")
        contestant.seconds(number)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            size = write_pieces(Path(folder) / "rows", snapshot.head, snapshot.next)
            figures[name] = {"bytes": size, "s": time.perf_counter() - start}
        snapshot.close(written=True)
    return figures


def main() -> dict[str, Any]:
    """Print and return the figures of both kinds."""
    update = CompiledRowUpdate(export_row_update(adagrad, SPEC), SPEC)
    for rows in (IDS, FILL):  # so that memory and time of the compiler do not count
        table = dense(rows, update)
        table.apply(np.arange(rows), np.zeros((rows, DIM), np.float32), [0.1])
    print(f"### Pulling and pushing {IDS:,} rows of {DIM} floats, with Adagrad's slot\n")
    columns = "pull and push, ms | pull, busy ms | push, busy ms | rows/s pulled | rows/s pushed | memory"
    print(f"| table | rows | {columns} |")
    print("|---" * 8 + "|")
    figures = {kind: measure(kind, update) for kind in KINDS}
    print("\nRows/s are of a core that is always busy; the bar is 100,000. Memory is what the process grows")
    print("by, in times of the rows and their slots; the bar is 1.15, and 1.5 of hashed tables.\n")
    small, large = (f"{rows:,}" for rows in SIZES)
    for kind, found in figures.items():
        written = [
            f"{each['bytes'] / 1e6:.1f} MB in {each['s']:.2f} s"
            for each in (found["snapshots"][name] for name in ("whole", "changes"))
        ]
        print(
            f"- {kind}: {large} rows keep a core busy {found['times_as_busy']:.2f} times as long as {small}; "
            f"the bar is 1.3. A snapshot of {small} rows: {written[0]}; of the changes of {STEPS} pushes: "
            f"{written[1]}."
        )
    return {"figures": figures}


if __name__ == "__main__":
    _results.write("embeddings", main())
