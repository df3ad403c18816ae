"""All-reduce arrays in several processes: ``exchange.py muster|direct|xla|torch FOLDER WORKERS PORT``.

Writes, by the number of values, the seconds of an all-reduce and the processor seconds of all processes to
FOLDER/result.json. ``direct`` is muster with a connection between every two workers, however many they are.
"""

import json
import multiprocessing
import os
import socket
import sys
import time
from pathlib import Path

import numpy as np

SIZES = {
    256: 400,
    4_096: 300,
    25_000: 120,
    350_000: 60,
    2_500_000: 12,
}  # float32 numbers: sums of two workers
FOR_TWO = {25_000_000: 4}
WARM_UP = 3


def muster(folder, rank, workers, port):
    from muster.distribute.workers._socket_workers import SocketWorkers
    from muster.net import Connection

    server = socket.create_server(("localhost", 0))
    written = folder / f"{rank}.port"
    written.with_suffix(".part").write_text(str(server.getsockname()[1]))
    written.with_suffix(".part").rename(written)

    def dial(peer):
        while not (found := folder / f"{peer}.port").exists():
            time.sleep(0.01)
        sock = socket.create_connection(("localhost", int(found.read_text())))
        sock.sendall(rank.to_bytes(4, "big"))
        return Connection(sock)

    def accept(timeout_secs):
        server.settimeout(timeout_secs)
        sock, _ = server.accept()
        return int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big"), Connection(sock)

    link = SocketWorkers(rank, [f"worker {each}" for each in range(workers)])
    link.connect(dial, accept, 60.0)
    server.close()
    return np.ones, lambda array: link.all_reduce([array])


def direct(folder, rank, workers, port):
    from muster.distribute.workers import _schedules

    _schedules.DIRECT_WORKERS = workers
    return muster(folder, rank, workers, port)


def xla(folder, rank, workers, port):
    import jax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(f"localhost:{port}", workers, rank)
    mesh = Mesh(np.array(jax.devices()), ("worker",))
    sharding = NamedSharding(mesh, P("worker"))
    spec = P("worker")
    add = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "worker"), mesh=mesh, in_specs=spec, out_specs=spec)
    )

    def make(size, dtype):
        return jax.make_array_from_process_local_data(sharding, np.ones(size, dtype))

    return make, lambda array: add(array).block_until_ready()


def torch(folder, rank, workers, port):
    import torch

    torch.set_num_threads(1)
    meet_at = f"tcp://localhost:{port}"
    torch.distributed.init_process_group("gloo", init_method=meet_at, rank=rank, world_size=workers)
    return lambda size, dtype: torch.ones(size), torch.distributed.all_reduce


def work(name, folder, rank, workers, port):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    make, add = CONTESTANTS[name](folder, rank, workers, port)
    found = {}
    for size, count in (SIZES | (FOR_TWO if workers == 2 else {})).items():
        count = max(4, 2 * count // workers)
        array = make(size, np.float32)
        for _ in range(WARM_UP):
            add(array)
        began, began_cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            add(array)
        secs, cpu_secs = time.perf_counter() - began, time.process_time() - began_cpu
        found[size] = secs / count, cpu_secs / count
    (folder / f"{rank}.json").write_text(json.dumps(found))


CONTESTANTS = {"muster": muster, "direct": direct, "xla": xla, "torch": torch}


def main():
    name, folder, workers, port = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if name in ("muster", "direct"):  # once for all: 32 processes on two cores would take a minute for it
        import muster.distribute.workers._socket_workers  # noqa: F401
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=work, args=(name, folder, rank, workers, port)) for rank in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(workers)]
    found = {size: [secs, sum(each[size][1] for each in ranks)] for size, (secs, _) in ranks[0].items()}
    (folder / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
