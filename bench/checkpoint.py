"""Measure writing and reading checkpoints, and how long saving blocks the training thread.

Measured in turn beside them: the safetensors package's ``save_file`` and ``load_file``, with fsync like a
checkpoint but without checksums, and a plain sequential write of the same bytes, the limit of the disk.

With ``--store``: a save of 1 GB to a server of S3 on this machine, of the package moto, beside Orbax and
Lightning, if MUSTER_BENCH_STORES names a Python that has them, and beside what s3fs takes to send a file.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from bench import _results
from muster.checkpoint import Checkpointer, read_checkpoint, write_checkpoint

SIZES = (50_000_000, 500_000_000)  # bytes
ARRAYS = 50
ALTERNATIONS = 5
STORED, STORES = 1_000_000_000, 3  # bytes; alternations
STORING = Path(__file__).parent / "_peers" / "stored_checkpoint.py"
ROOT = Path(__file__).parent.parent
# How long a server may take to answer, in seconds.
ANSWER_SECS = 60.0


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def longest_standstill(checkpointer: Checkpointer, variables: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return the seconds that save() blocks, and the longest gap in a loop that runs during the write."""
    returned = timed(lambda: checkpointer.save(1, variables, {}))
    done = threading.Event()
    waiter = threading.Thread(target=lambda: (checkpointer.wait(), done.set()))
    waiter.start()
    longest, last = 0.0, time.perf_counter()
    while not done.is_set():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    waiter.join()
    return returned, longest


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def safetensors_save(path: Path, variables: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(exist_ok=True)
    safetensors.numpy.save_file(variables, path)
    sync(path)


def plain_write(path: Path, variables: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb", buffering=0) as file:
        for array in variables.values():
            file.write(array)
    sync(path)


def measure(directory: Path, size: int) -> dict[str, Any]:
    """Print and return the seconds of each call, and the seconds that the training thread is blocked."""
    variables = {
        f"layer_{i}": np.random.default_rng(i).random(size // ARRAYS // 4, np.float32) for i in range(ARRAYS)
    }
    path = write_checkpoint(directory, 0, variables, {})
    new = directory / "ckpt-1"
    other = directory / "other.safetensors"
    calls: dict[str, Callable[[], object]] = {
        "muster write": lambda: write_checkpoint(directory, 1, variables, {}),
        "safetensors write, fsync": lambda: safetensors_save(new / "x", variables),
        "plain write, fsync": lambda: plain_write(new / "x", variables),
        "muster read, checked": lambda: read_checkpoint(path),
        "safetensors read": lambda: safetensors.numpy.load_file(other),
    }
    secs: dict[str, list[float]] = {name: [] for name in calls}
    safetensors_save(other, variables)
    for _ in range(ALTERNATIONS):
        for name, call in calls.items():
            secs[name].append(timed(call))
            # Each call writes a new file, to an idle disk.
            shutil.rmtree(new, ignore_errors=True)
            os.sync()
    print(f"{size / 1e6:.0f} MB in {ARRAYS} arrays, median of {ALTERNATIONS} in turn:")
    for name, values in secs.items():
        median = statistics.median(values)
        print(
            f"  {name:26} {median:7.3f} s  {size / median / 1e6:6.0f} MB/s"
            f"  ({min(values):.3f} to {max(values):.3f})"
        )
    with Checkpointer(directory / "background") as checkpointer:
        stalls = [longest_standstill(checkpointer, variables) for _ in range(ALTERNATIONS)]
    returned, longest = (statistics.median(column) * 1e3 for column in zip(*stalls, strict=True))
    print(
        f"  save() returns after {returned:.2f} ms; "
        f"the longest standstill beside the write is {longest:.1f} ms"
    )
    return {"bytes": size, "secs": secs, "save_returns_ms": returned, "longest_standstill_ms": longest}


def of_server(process: int) -> float:
    """Return the seconds of the processors that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bucket(environ: dict[str, str], what: str) -> subprocess.CompletedProcess[bytes]:
    code = f"import fsspec; store = fsspec.filesystem('s3'); {what}"
    return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True)


def measure_store(size: int) -> dict[str, Any]:
    """Print and return what a save of so many bytes to a store takes, of each that is installed, in turn."""
    python = Path(os.environ.get("MUSTER_BENCH_STORES", ROOT / ".peers" / "stores" / "bin" / "python"))
    pythons = {"muster": Path(sys.executable), "plain": Path(sys.executable)}
    if python.exists():
        pythons |= {"orbax": python, "lightning": python}
    else:
        print(f"Orbax and Lightning are left out: there is no {python}, or other in MUSTER_BENCH_STORES.")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = os.environ | {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "PYTHONPATH": "",
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    failed: dict[str, str] = {}
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        deadline = time.monotonic() + ANSWER_SECS
        while (made := bucket(environ, "store.mkdir('bucket')")).returncode:
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                raise RuntimeError(
                    f"moto's server does not answer: pip install 'moto[server]' s3fs: {made.stderr!r}"
                )
        try:
            for turn in range(STORES):
                for name, each in pythons.items():
                    if name in failed:
                        continue
                    words = [each, STORING, name, f"s3://bucket/{name}-{turn}", str(size)]
                    before = of_server(server.pid)
                    done = subprocess.run(words, env=environ, capture_output=True, text=True)
                    if done.returncode:
                        failed[name] = (done.stderr.strip().splitlines() or ["no output"])[-1]
                        continue
                    figures = json.loads(done.stdout.splitlines()[-1])
                    found[name].append({**figures, "server_secs": of_server(server.pid) - before})
                    bucket(environ, f"store.rm('bucket/{name}-{turn}', recursive=True)")
        finally:
            server.kill()
    print(f"{size / 1e6:.0f} MB in {ARRAYS} arrays to S3 on this machine, medians of {STORES} in turn:")
    for name, turns in found.items():
        if name in failed:
            print(f"  {name:10} fails: {failed[name]}")
            continue
        median = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
        print(
            f"  {name:10} save returns after {median['returned_ms']:8.1f} ms; stored after "
            f"{median['stored_secs']:6.1f} s; standstill {median['standstill_ms']:6.1f} ms; processor "
            f"{median['processor_secs']:6.1f} s, of the server {median['server_secs']:6.1f} s; memory "
            f"{median['memory_mb']:+7.0f} MB"
        )
    return {"bytes": size, "turns": found, "failed": failed}


def main() -> None:
    """Measure, and print figures."""
    parser = argparse.ArgumentParser(prog="python -m bench checkpoint", description=__doc__)
    parser.add_argument("--store", action="store_true", help="measure saves to a store, and nothing else")
    parser.add_argument("--bytes", type=int, default=STORED, help="of that save, default: %(default)s")
    args = parser.parse_args()
    if args.store:
        _results.write("checkpoint_store", measure_store(args.bytes))
        return
    figures = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            figures.append(measure(Path(directory), size))
    _results.write("checkpoint", {"sizes": figures})


if __name__ == "__main__":
    main()
