"""Measure tables that a parameter server holds, over loopback: pulling rows, pushing their gradients, memory.

Each table is on a server of its own, a process on the same machine; a client pulls and pushes rows of all of
them in turn.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from bench.workers import free_ports

from bench import _results
from muster.distribute import Server
from muster.ps import ArraySpec, Servers
from muster.ps.contents import StoredArray, StoredFunction, StoredHash, StoredName, TableUse
from muster.ps.tables import Constant, SlotSpec, TableSpec

DIM, IDS = 32, 64 * 26
SIZES = (10**6, 10**7)
ROUNDS, STEPS, FILL = 40, 10, 1 << 16
ROW_BYTES = 2 * DIM * 4
RATE, ROW = ArraySpec("rate", (), "float32"), ArraySpec("gradient", (DIM,), "float32")


def adagrad(rows: Any, accumulator: Any, gradients: Any, rate: Any) -> tuple[Any, Any]:
    accumulator = accumulator + gradients**2
    return rows - rate * gradients / jnp.sqrt(accumulator), accumulator


def function(columns: tuple[str, ...], slots: int = 0) -> StoredFunction:
    """Return a function that trains rows by Adagrad."""
    (count,) = jax.export.symbolic_shape("rows")
    rows = jax.ShapeDtypeStruct((count, DIM), jnp.float32)
    export = jax.export.export(jax.jit(adagrad), platforms=("cpu",))
    update = bytes(export(rows, rows, rows, jax.ShapeDtypeStruct((), jnp.float32)).serialize())
    use = TableUse(columns=columns, update=update, reads=("rate",), row_pushes=(ROW,), slots=slots)
    return StoredFunction(fingerprint=columns[0], tables=(use,))


def dense(client: Servers, rows: int) -> StoredFunction:
    """Make a table of ids from 0."""
    arrays = [StoredArray(name, 0, (rows, DIM), "float32", by_rows=True) for name in ("table", "slot")]
    client.reserve(arrays)
    for array, value in zip(arrays, (0.0, 0.1), strict=True):
        for start in range(0, rows, FILL):
            many = min(FILL, rows - start)
            client.assign_rows(array.key, start, np.full((many, DIM), value, np.float32))
    return function(("table", "slot"))


def hashed(client: Servers, rows: int) -> StoredFunction:
    """Make a table of the ids that `as_hashed` gives."""
    slot = SlotSpec("accumulator", (DIM,), initial=0.1)
    spec = TableSpec(name="hashed", shape=(DIM,), initial=Constant(0.0), slots=(slot,))
    client.create_hashed([StoredHash(name="hashed", server=0, spec=spec)])
    for start in range(0, rows, FILL):
        ids = np.sort(as_hashed(np.arange(start, min(start + FILL, rows))))
        new = [np.full((len(ids), DIM), value, np.float32) for value in (0.0, 0.1)]
        client.assign_hashed(StoredName(0, "hashed"), ids, new)
    return function(("hashed",), 1)


def as_hashed(ids: np.ndarray) -> np.ndarray:
    return ids * 0x5851F42D4C957F2D  # all different, of 64 bits


KINDS: dict[str, tuple[Callable[..., StoredFunction], Callable[[np.ndarray], np.ndarray]]] = {
    "dense": (dense, lambda ids: ids),
    "hashed": (hashed, as_hashed),
}


class Contestant:
    """A table of some kind and size on a server, and ids of its rows.

    Attributes:
        memory: The resident memory of the server that it takes, in times of its rows and slots.
    """

    def __init__(self, kind: str, rows: int, client: Servers, process: int) -> None:
        make, given = KINDS[kind]
        self._client, self._process = client, process
        client.create([(StoredArray("rate", 0, (), "float32"), np.float32(0.01))])
        warm, _ = KINDS["dense"]
        client.register([warm(client, 1 << 14)])  # the compiler's memory does not count
        self._closures = 0
        self._name = "table"
        for size in (IDS, 1 << 14):
            self._push(np.arange(size), np.zeros((size, DIM), np.float32))
        client.delete([StoredName(0, name) for name in ("table", "slot")])
        before = resident_bytes(process)
        trained = make(client, rows)
        client.register([trained])
        self._name = trained.fingerprint
        rng = np.random.default_rng(0)
        self._ids = [np.unique(given(rng.integers(0, rows, IDS))) for _ in range(STEPS * ROUNDS)]
        self._gradients = rng.normal(size=(IDS, DIM)).astype(np.float32)
        self.seconds(0)
        self.memory = (resident_bytes(process) - before) / (rows * ROW_BYTES)

    def seconds(self, number: int) -> tuple[float, float, float]:
        """Return seconds of a pull and a push: of both by the clock, and of each that the server was busy."""
        some = self._ids[number * STEPS : (number + 1) * STEPS]
        start, busy = time.perf_counter(), busy_seconds(self._process)
        for ids in some:
            self._client.pull(self._name, [[ids]])
        pulled = busy_seconds(self._process)
        for ids in some:
            self._push(ids, self._gradients[: len(ids)])
        pushed, end = busy_seconds(self._process), time.perf_counter()
        return (end - start) / STEPS, (pulled - busy) / STEPS, (pushed - pulled) / STEPS

    def _push(self, ids: np.ndarray, gradients: np.ndarray) -> None:
        self._closures += 1
        self._client.apply(self._name, self._closures, self._closures, [[]], [[(ids, [gradients])]])


@contextlib.contextmanager
def served() -> Iterator[tuple[Servers, int]]:
    """Run a server; return a client of it, and its process."""
    (port,) = free_ports(1)
    cluster = {"ps": [f"127.0.0.1:{port}"], "chief": ["127.0.0.1:0"]}
    command = [sys.executable, "-m", "bench._table_server", json.dumps(cluster)]
    process = subprocess.Popen(command)
    try:
        with Server(cluster, "chief", 0) as server:
            with contextlib.closing(server.store(uuid.uuid4().hex, starts=True)) as client:
                yield client, process.pid
                client.end()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def busy_seconds(process: int) -> float:
    """Return how long all threads of a process have run."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measure(kind: str) -> dict[str, Any]:
    """Compare the sizes of tables of a kind, in turn."""
    with contextlib.ExitStack() as opened:
        contestants = {rows: Contestant(kind, rows, *opened.enter_context(served())) for rows in SIZES}
        times: dict[int, list[tuple[float, float, float]]] = {rows: [] for rows in SIZES}
        for number in range(1, ROUNDS):
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
    pairs = list(zip(*times.values(), strict=True))
    figures["times_as_long"] = statistics.median(large[0] / small[0] for small, large in pairs)
    figures["times_as_busy"] = statistics.median(sum(large[1:]) / sum(small[1:]) for small, large in pairs)
    return figures


def main() -> dict[str, Any]:
    """Print and return the figures of both kinds."""
    print(f"### Pulling and pushing {IDS:,} rows of {DIM} floats, with Adagrad's slot, over loopback\n")
    columns = "pull and push, ms | pull, busy ms | push, busy ms | rows/s pulled | rows/s pushed | memory"
    print(f"| table | rows | {columns} |")
    print("|---" * 8 + "|")
    figures = {kind: measure(kind) for kind in KINDS}
    print(
        "\nBusy is the server's process. Rows/s are of one of its cores; the bar is 100,000. Memory is what"
    )
    print("it grows by, in times of the rows and their slots; the bar is 1.15, and 1.5 of hashed tables.\n")
    small, large = (f"{rows:,}" for rows in SIZES)
    for kind, found in figures.items():
        print(
            f"- {kind}: {large} rows take {found['times_as_long']:.2f} times as long as {small} by the "
            f"clock, and keep the server busy {found['times_as_busy']:.2f} times as long; the bar is 1.3."
        )
    return {"figures": figures}


if __name__ == "__main__":
    _results.write("embeddings", main())
