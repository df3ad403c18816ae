"""Save arrays once to an object store, in the background: run by ``bench.checkpoint``, by each peer's Python.

Arguments: who saves ("muster"; "orbax", to a folder that s3fs then sends; "lightning"; "plain": s3fs sends a
file that is there), a URL, and how many bytes. Prints a line of JSON.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ARRAYS = 50
# What muster gives to s3fs.
IN_PARTS = {"chunksize": 1 << 24, "max_concurrency": 4}


def muster(url: str, arrays: dict[str, np.ndarray]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from muster.checkpoint import Checkpointer

    checkpointer = Checkpointer(url)
    return lambda: checkpointer.save(1, arrays, {}), checkpointer.close


def orbax(url: str, arrays: dict[str, np.ndarray]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import fsspec
    import orbax.checkpoint as ocp

    # Version 0.12 writes arrays to S3 neither with OCDBT nor without: it takes the URL for a folder.
    folder = Path(tempfile.mkdtemp(prefix="orbax-"))
    checkpointer, store = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler()), fsspec.filesystem("s3")

    def wait() -> None:
        checkpointer.wait_until_finished()
        store.put(f"{folder}/1", f"{url}/1", recursive=True, **IN_PARTS)
        shutil.rmtree(folder)

    return lambda: checkpointer.save(folder / "1", args=ocp.args.StandardSave(arrays)), wait


def lightning(url: str, arrays: dict[str, np.ndarray]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch
    from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO

    plugin = AsyncCheckpointIO(TorchCheckpointIO())
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return lambda: plugin.save_checkpoint({"state_dict": tensors}, f"{url}/1.ckpt"), plugin.teardown


def plain(url: str, arrays: dict[str, np.ndarray]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import fsspec

    file = tempfile.NamedTemporaryFile()
    for array in arrays.values():
        file.write(array)
    file.flush()
    store = fsspec.filesystem("s3")
    return lambda: store.put_file(file.name, f"{url}/plain", **IN_PARTS), file.close


def resident(name: str) -> int:
    """Return a number of bytes of this process, as the system counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"There is no {name} in /proc/self/status.")


def processor_secs() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    who, url, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    arrays = {
        f"layer_{i}": np.random.default_rng(i).random(size // ARRAYS // 4, np.float32) for i in range(ARRAYS)
    }
    save, wait = {"muster": muster, "orbax": orbax, "lightning": lightning, "plain": plain}[who](url, arrays)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins now
    before, used = resident("VmRSS"), processor_secs()
    began = time.perf_counter()
    save()
    returned = time.perf_counter() - began
    failed: list[BaseException] = []

    def wait_noting() -> None:
        try:
            wait()
        except BaseException as exc:
            failed.append(exc)

    waiter = threading.Thread(target=wait_noting)
    waiter.start()
    longest, last = 0.0, time.perf_counter()
    while waiter.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    if failed:
        raise failed[0]
    found = {
        "returned_ms": returned * 1e3,
        "stored_secs": time.perf_counter() - began,
        "standstill_ms": longest * 1e3,
        "processor_secs": processor_secs() - used,
        "memory_mb": (resident("VmHWM") - before) / 1e6,
    }
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
