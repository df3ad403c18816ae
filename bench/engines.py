"""Measure two workers that an engine has started, in turn with two local ones: their steps, and their start.

Each engine has one host, which is this machine, so that tasks have the same processors: what is measured is
what the agent beside them costs, and the passing on of their output. What is not installed is left out.

The start is the time from the command to the first step of the slower worker, with what an earlier run has
compiled. Beside it is the engine's own: what its own client takes to run two programs that do nothing.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import say
from bench.recovery import Timed, spread, turn_table, turns
from bench.start import CHILD, seconds, until_first_step

from bench import _results

TURNS, STARTS = 20, 5
# The time from the command to the first step is at most so many times that of local workers, and the
# engine's own start.
MOST_STARTS = 1.3
TESTS = Path(__file__).parents[1] / "packages" / "muster" / "tests"
TWO = ["--workers", "2"]
# The tests know how to start daemons of ssh, Ray and Slurm.
sys.path += [str(TESTS), str(TESTS / "launch"), str(TESTS / "engines")]


# Two actors of Ray that do nothing.
RAYS_OWN = """
import sys
import ray

ray.init(address=sys.argv[1], log_to_driver=False)
actor = ray.remote(num_cpus=1)(type("Actor", (), {"here": lambda self: None}))
ray.get([each.here.remote() for each in [actor.remote(), actor.remote()]])
"""


class Engine(NamedTuple):
    """An engine that is there for a while.

    Args:
        job: A job of two workers on it.
        own: What starts two programs on it that do nothing, without muster; empty for nothing.
    """

    job: Timed
    own: Sequence[str] = ()


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextlib.contextmanager
def nodes() -> Iterator[Engine]:
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.write_text("0123456789abcdef" * 4)
        secret.chmod(0o600)
        options = [*TWO, "--nodes", "1", "--rendezvous", free_address()]
        yield Engine(Timed("`--nodes 1`", options, environ={"MUSTER_SECRET_FILE": str(secret)}))


@contextlib.contextmanager
def ssh() -> Iterator[Engine]:
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
            job = Timed("`--on ssh`", [*TWO, "--on", f"ssh:{host}", "--ssh-command", command])
            yield Engine(job, [*shlex.split(command), host, "true; true"])
        finally:
            hosts.stop(host)


@contextlib.contextmanager
def slurm() -> Iterator[Engine]:
    from slurm_cluster import PATH, running

    if shutil.which("slurmctld", path=PATH) is None:
        raise FileNotFoundError("Slurm is not installed")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as cluster:
        environ = {name: cluster.environment[name] for name in ("PATH", "SLURM_CONF")}
        options = ["--on", "slurm", "--tasks-per-node", "2"]
        own = ["env", f"PATH={environ['PATH']}", "srun", "--quiet", "--ntasks=2", "true"]
        yield Engine(Timed("`--on slurm`", [*TWO, *options], environ=environ), own)


@contextlib.contextmanager
def ray() -> Iterator[Engine]:
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
        job = Timed("`--on ray`", [*TWO, "--on", f"ray:{address}"])
        yield Engine(job, [sys.executable, "-c", RAYS_OWN, address])
    finally:
        cluster.communicate(timeout=120)


ENGINES: dict[str, Callable[[], contextlib.AbstractContextManager[Engine]]] = {
    "nodes": nodes,
    "ssh": ssh,
    "slurm": slurm,
    "ray": ray,
}


def starts(count: int, name: str, engine: Engine) -> dict[str, list[float]]:
    """Time starts in turn, after one of each that compiles.

    Returns:
        Seconds until the first step, ``local`` and by the engine's name, and its ``own``.
    """
    found: dict[str, list[float]] = {"local": [], name: [], "own": []}
    with tempfile.TemporaryDirectory() as made:
        folders = {each: Path(made, each) for each in found}

        def start(which: str) -> float:
            folder = folders[which]
            if which == "own":
                folder.mkdir(exist_ok=True)
                return seconds(engine.own, folder, engine.job.environ) if engine.own else 0.0
            # Tasks elsewhere get no other variables of this process.
            cache = ["--env", f"XDG_CACHE_HOME={folder}"]
            options = TWO if which == "local" else engine.job.options
            command = [sys.executable, "-m", "muster", "run", *options, *cache, str(CHILD)]
            until = until_first_step(command, folder, engine.job.environ)["first step"]
            shutil.rmtree(folder / "model")
            return until

        for turn in range(count + 1):
            for which in found if turn % 2 else reversed(found):
                took = start(which)
                if turn:
                    found[which].append(took)
            say(f"start {turn} of {count}" if turn else "warm-up of starts")
    return found


def start_table(found: dict[str, list[float]], name: str) -> str:
    """Return seconds until the first step as Markdown, and beside them the most that they may be."""
    local, own = statistics.median(found["local"]), statistics.median(found["own"])
    most = own + MOST_STARTS * local
    cells = [spread(found["local"]), spread(found[name]), spread(found["own"]), f"{most:.2f}"]
    return (
        f"| median of {len(found['local'])} starts | local, s | {name}, s | own start, s | the bar, s |\n"
        f"|---|---|---|---|---|\n| first step | {' | '.join(cells)} |"
    )


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m bench engines", description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES], help="default: all")
    parser.add_argument("--turns", type=int, default=TURNS, help="of steps (default: %(default)s); 0: none")
    parser.add_argument("--starts", type=int, default=STARTS, help="default: %(default)s; 0: none")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder for JSON")
    args = parser.parse_args()
    figures: dict[str, dict[str, Any]] = {}
    for name in args.engines:
        with contextlib.ExitStack() as stack:
            try:
                engine = stack.enter_context(ENGINES[name]())
            except FileNotFoundError as exc:
                say(f"{name} is left out: {exc}.")
                continue
            print(f"### {name}\n", flush=True)
            found = figures[name] = {}
            if args.turns:
                contestants = {"local": Timed("local", TWO), name: engine.job}
                times, spent, gap = turns(args.turns, contestants=contestants)
                found |= {"ms_per_step": times, "processor_ms_per_step": spent, "loss_gap": gap}
                print(f"{turn_table(times, spent, contestants)}\n", flush=True)
                say(json.dumps({"loss_gap": gap}))
            if args.starts:
                found["seconds_to_first_step"] = starts(args.starts, name, engine)
                print(f"{start_table(found['seconds_to_first_step'], name)}\n", flush=True)
    _results.write("engines", figures, args.results)


if __name__ == "__main__":
    main()
