"""Measure steps of two workers that an engine has started, in turn with the steps of two local ones.

Each engine has one host, which is this machine, so that tasks have the same processors: what is measured is
what the agent beside them costs, and the passing on of their output. What is not installed is left out.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.peers import say
from bench.recovery import Timed, turn_table, turns

from bench import _results

TURNS = 20
TESTS = Path(__file__).parents[1] / "packages" / "muster" / "tests"
TWO = ["--workers", "2"]
# The tests know how to start daemons of ssh, Ray and Slurm.
sys.path += [str(TESTS), str(TESTS / "launch"), str(TESTS / "engines")]


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextlib.contextmanager
def nodes() -> Iterator[Timed]:
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.write_text("0123456789abcdef" * 4)
        secret.chmod(0o600)
        options = [*TWO, "--nodes", "1", "--rendezvous", free_address()]
        yield Timed("`--nodes 1`", options, environ={"MUSTER_SECRET_FILE": str(secret)})


@contextlib.contextmanager
def ssh() -> Iterator[Timed]:
    # Not by its name, which other folders have, too.
    spec = importlib.util.spec_from_file_location("hosts_of_tests", TESTS / "engines" / "conftest.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("The tests of engines have no conftest.py.")
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    if tests.SSHD is None:
        raise FileNotFoundError("sshd is not installed")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        Path("/run/sshd").mkdir(exist_ok=True)
        hosts, host = tests.Hosts(Path(folder)), tests.HOSTS[0]
        hosts.start(host)
        try:
            command = hosts.options[hosts.options.index("--ssh-command") + 1]
            yield Timed("`--on ssh`", [*TWO, "--on", f"ssh:{host}", "--ssh-command", command])
        finally:
            hosts.stop(host)


@contextlib.contextmanager
def slurm() -> Iterator[Timed]:
    from slurm_cluster import PATH, running

    if shutil.which("slurmctld", path=PATH) is None:
        raise FileNotFoundError("Slurm is not installed")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as cluster:
        environ = {name: cluster.environment[name] for name in ("PATH", "SLURM_CONF")}
        yield Timed("`--on slurm`", [*TWO, "--on", "slurm", "--tasks-per-node", "2"], environ=environ)


@contextlib.contextmanager
def ray() -> Iterator[Timed]:
    if importlib.util.find_spec("ray") is None:
        raise FileNotFoundError("Ray is not installed")
    command = [sys.executable, str(TESTS / "engines" / "ray_cluster.py")]
    # Ray's workers, and the tasks that those start, have the niceness 15 otherwise, and local tasks 0.
    environ = {**os.environ, "RAY_worker_niceness": "0"}
    cluster = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if cluster.stdin is None or cluster.stdout is None:
        raise RuntimeError("A process was started without its pipes.")
    try:
        address = cluster.stdout.readline().strip()
        yield Timed("`--on ray`", [*TWO, "--on", f"ray:{address}"])
    finally:
        cluster.communicate(timeout=120)


ENGINES: dict[str, Callable[[], contextlib.AbstractContextManager[Timed]]] = {
    "nodes": nodes,
    "ssh": ssh,
    "slurm": slurm,
    "ray": ray,
}


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m bench engines", description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES], help="default: all")
    parser.add_argument("--turns", type=int, default=TURNS, help="default: %(default)s")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder for JSON")
    args = parser.parse_args()
    figures = {}
    for name in args.engines:
        try:
            with ENGINES[name]() as timed:
                contestants = {"local": Timed("local", TWO), name: timed}
                times, spent, gap = turns(args.turns, contestants=contestants)
        except FileNotFoundError as exc:
            say(f"{name} is left out: {exc}.")
            continue
        figures[name] = {"ms_per_step": times, "processor_ms_per_step": spent, "loss_gap": gap}
        print(f"### {name}\n\n{turn_table(times, spent, contestants)}\n", flush=True)
        say(json.dumps({"loss_gap": gap}))
    _results.write("engines", figures, args.results)


if __name__ == "__main__":
    main()
