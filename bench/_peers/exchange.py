"""All-reduce arrays as one of two processes: ``exchange.py muster|xla|torch FOLDER RANK PORT``.

Writes the seconds of an all-reduce, by the number of values, to FOLDER/RANK.json.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

SIZES = {4_096: 300, 350_000: 60, 25_000_000: 4}  # float32 numbers: how many sums
WARM_UP = 3


def muster(folder, rank, port):
    from muster.distribute.workers._socket_workers import SocketWorkers

    link = SocketWorkers(rank, ["worker 0", "worker 1"])
    written = folder / f"{rank}.address"
    written.with_suffix(".part").write_text(json.dumps(["localhost", link.port, link.token]))
    written.with_suffix(".part").rename(written)

    def look_up(peer):
        while not (found := folder / f"{peer}.address").exists():
            time.sleep(0.01)
        return json.loads(found.read_text())

    link.connect(look_up, 60.0)
    return np.ones, lambda array: link.all_reduce([array])


def xla(folder, rank, port):
    import jax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(f"localhost:{port}", 2, rank)
    mesh = Mesh(np.array(jax.devices()), ("worker",))
    sharding = NamedSharding(mesh, P("worker"))
    spec = P("worker")
    add = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "worker"), mesh=mesh, in_specs=spec, out_specs=spec)
    )

    def make(size, dtype):
        return jax.make_array_from_process_local_data(sharding, np.ones(size, dtype))

    return make, lambda array: add(array).block_until_ready()


def torch(folder, rank, port):
    import torch

    torch.set_num_threads(1)
    meet_at = f"tcp://localhost:{port}"
    torch.distributed.init_process_group("gloo", init_method=meet_at, rank=rank, world_size=2)
    return lambda size, dtype: torch.ones(size), torch.distributed.all_reduce


def main():
    name, folder, rank, port = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    make, add = {"muster": muster, "xla": xla, "torch": torch}[name](folder, rank, port)
    seconds = {}
    for size, count in SIZES.items():
        array = make(size, np.float32)
        for _ in range(WARM_UP):
            add(array)
        began = time.perf_counter()
        for _ in range(count):
            add(array)
        seconds[size] = (time.perf_counter() - began) / count
    (folder / f"{rank}.json").write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
