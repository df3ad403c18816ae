"""Compare two synchronous workers on the guide's model: global steps per second of muster and its peers.

``muster run`` pins each worker to a core. Peers run pinned and unpinned, and the faster of the two counts.
``bench/peers.py`` says how peers are found.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from bench.peers import python_of

from bench import _results

CHECK_STEPS = 50  # those of bench/_peers/two_workers.py
STEPS = CHECK_STEPS + 300
ALTERNATIONS = 10
LOSSES_AGREE_WITHIN = 1e-3
PEERS = Path(__file__).parent / "_peers"
DEADLINE_SECS = 300


def muster(script: str, keys: Path | None = None) -> Callable[[Path], None]:
    """Return a function that runs two workers under ``muster run``, which pins them; with keys over TLS."""

    def run(folder: Path) -> None:
        command = [sys.executable, "-m", "muster", "run", "--workers", "2", "--log-dir", folder / "logs"]
        environment = {**os.environ, "MODEL_DIR": str(folder / "model")}
        if keys is not None:
            environment["MUSTER_TLS"] = str(keys)
        done = subprocess.run(
            [*command, PEERS / script, str(STEPS), folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=DEADLINE_SECS,
        )
        if done.returncode:
            raise RuntimeError(done.stdout.decode()[-4000:])

    return run


def peer(python: str, script: str, *, pinned: bool) -> Callable[[Path], None]:
    """Return a function that runs two workers of a peer; ``pinned`` gives each a core."""

    def run(folder: Path) -> None:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        workers = []
        for worker, core in enumerate(sorted(os.sched_getaffinity(0))[:2]):
            job = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": worker}}
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(job),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "MEET_AT": f"tcp://{addresses[0]}",
            }
            command = [python, PEERS / script, str(STEPS), folder]
            if pinned:
                command = ["taskset", "-c", str(core), *command]
            with (folder / f"{worker}.log").open("w") as log:
                workers.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
                )
        try:
            codes = [each.wait(DEADLINE_SECS) for each in workers]
        finally:
            for each in workers:
                each.kill()
                each.wait()
        reports = [folder / f"{worker}.json" for worker in (0, 1)]
        if any(codes) and not all(report.exists() for report in reports):  # a peer may crash at its exit
            raise RuntimeError("\n".join(log.read_text()[-2000:] for log in folder.glob("*.log")))

    return run


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def measured(run: Callable[[Path], None]) -> tuple[list[float], float]:
    """Return the workers' mean losses at the first steps, and worker 0's steps per second afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
        told = [json.loads(Path(folder, f"{worker}.json").read_text()) for worker in (0, 1)]
    losses = np.mean([each["losses"] for each in told], axis=0)
    return losses.tolist(), (STEPS - CHECK_STEPS) / told[0]["seconds"]


def require_same_losses(losses: dict[str, list[float]]) -> None:
    """Raise ValueError unless all contestants computed equal losses."""
    (first, expected), *others = losses.items()
    for name, found in others:
        apart = float(np.max(np.abs(np.array(found) - expected)))
        if apart > LOSSES_AGREE_WITHIN:
            raise ValueError(
                f"The losses of {first} and of {name} are up to {apart:g} apart: not the same work."
            )


def compare(ours: str, peers: Sequence[tuple[str, str, str]], keys: Path | None = None) -> dict[str, float]:
    """Print and return muster's steps per second divided by each peer's, as medians over rounds.

    Args:
        ours: muster's script.
        peers: The name, library and script of each peer.
        keys: The certificates of a further contestant, muster over TLS.
    """
    contestants: dict[str, dict[str, Callable[[Path], None]]] = {"muster": {"a core each": muster(ours)}}
    if keys is not None:
        contestants["muster over TLS"] = {"a core each": muster(ours, keys)}
    for name, library, script in peers:
        if python := python_of(library):
            contestants[name] = {
                "a core each": peer(python, script, pinned=True),
                "all cores": peer(python, script, pinned=False),
            }
        else:
            print(f"{name} is left out: `make bench-peers` installs it.\n")
    speeds: dict[str, dict[str, list[float]]] = {
        name: {how: [] for how in ways} for name, ways in contestants.items()
    }
    for alternation in range(ALTERNATIONS):
        losses = {}
        for name, ways in contestants.items():
            for how, run in ways.items():
                losses[f"{name}, {how}"], speed = measured(run)
                speeds[name][how].append(speed)
                print(f"round {alternation + 1}: {name}, {how}: {speed:.1f} steps/s", file=sys.stderr)
        if alternation == 0:
            require_same_losses(losses)
            print(f"The losses of {CHECK_STEPS} steps agree within {LOSSES_AGREE_WITHIN:g}.\n")
    (own,) = speeds["muster"].values()
    print(
        f"| | global steps/s, the median of {ALTERNATIONS} | muster is so many times as fast |\n|---|---|---|"
    )
    ratios = {}
    for name, ways in speeds.items():
        how = max(ways, key=lambda way: statistics.median(ways[way]))
        theirs = ways[how]
        ratio = ""
        if theirs is not own:
            each = sorted(a / b for a, b in zip(own, theirs, strict=True))
            ratios[name] = statistics.median(each)
            ratio = f"{ratios[name]:.2f} ({each[0]:.2f} to {each[-1]:.2f})"
        print(f"| {name}, {how} | {statistics.median(theirs):.1f} | {ratio} |")
    return ratios


def main() -> dict[str, dict[str, float]]:
    """Print and return the ratios for an Estimator, for ``fit`` and for a loop."""
    tensorflow = "TensorFlow, MultiWorkerMirroredStrategy"
    estimator, fit, loop = "two_workers_estimator.py", "two_workers_fit.py", "two_workers_loop.py"
    print("### Estimator\n")
    ddp = ("PyTorch, DistributedDataParallel", "torch", "two_workers_ddp.py")
    figures = {"estimator": compare(estimator, [(tensorflow, "tensorflow", estimator), ddp])}
    print("\n### Model.fit\n")
    figures["fit"] = compare(fit, [(tensorflow, "tensorflow", fit)])
    print("\n### A custom loop\n")
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "keys")
        made = subprocess.run(
            [sys.executable, "-m", "muster", "keys", keys, "--hosts", "127.0.0.1"],
            capture_output=True,
            text=True,
        )
        if made.returncode:
            print(f"muster over TLS is left out: {made.stderr.strip()}\n")
        tls = None if made.returncode else keys / "127.0.0.1"
        figures["loop"] = compare(loop, [(tensorflow, "tensorflow", loop), ddp], tls)
    return figures


if __name__ == "__main__":
    _results.write("workers", main())
