"""Measure one parameter server: pushes beside plain sockets, steps of nothing, many workers, and its memory.

``bench/ps_training.py`` compares training.
"""

import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
from bench._ps_job import STEP_SECS, connect, scalar
from bench.transport import SIZES, answer_plainly, contestant, fill, make_certificates

from bench import _results
from muster.ps import ArraySpec, FirstValues, Plan, Pushed, Servers

JOB = Path(__file__).with_name("_ps_job.py")
EMPTY_STEPS = 3000
WORKERS, WORK_SECS = (1, 2, 4, 8, 16), 6.0
MEMORY_STEPS, MEMORY_SIZE = 100_000, 350_000  # of 1.4 MB
LARGE_STEPS, LARGE_SIZE = 100, 12_500_000  # of 50 MB


@contextlib.contextmanager
def server(keys: Path | None = None) -> Iterator[tuple[str, int]]:
    """Start a server, and yield its address and its process."""
    command = [sys.executable, str(JOB), "server", *([str(keys)] if keys else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"localhost:{process.stdout.readline().strip()}", process.pid
            process.wait(60)
        finally:
            process.kill()


def momentum(size: int) -> Plan:
    """Return a plan of ``size`` numbers which stochastic gradient descent with momentum updates."""

    def update(pulled: Any, kept: Any, pushed: Any) -> Any:
        velocity = 0.9 * kept - 0.01 * pushed
        return [pulled + velocity, velocity]

    specs = (ArraySpec("w", (size,), "float32"),)
    flat = jax.ShapeDtypeStruct((size,), "float32")
    exported = jax.export.export(jax.jit(update))(flat, flat, flat)
    return Plan(pulled=specs, kept=specs, pushed=specs, update=bytes(exported.serialize()))


@contextlib.contextmanager
def chief(plan: Plan, keys: Path | None = None) -> Iterator[tuple[Servers, Pushed, int]]:
    """Start a server with zeros; yields the connection, a push of zeros, and the server's process."""
    with (
        server(keys) as (address, process),
        contextlib.closing(connect(address, "chief 0", plan, keys)) as servers,
    ):
        pulled, kept = (
            {spec.dtype: np.zeros(spec.size, spec.dtype) for spec in each}
            for each in (plan.pulled, plan.kept)
        )
        servers.initialize([FirstValues(pulled, kept)], 0)
        yield servers, Pushed({spec.dtype: np.zeros(spec.size, spec.dtype) for spec in plan.pushed}), process
        servers.end()


def exchange(keys: Path | None) -> dict[str, Any]:
    """Push and pull in turn with plain sockets; also over TLS, if there are certificates."""
    figures: dict[str, Any] = {}
    with contestant(answer_plainly) as port, socket.create_connection(("localhost", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for label, (size, count) in SIZES.items():
            plan, data = momentum(size // 4), memoryview(bytearray(size))
            with contextlib.ExitStack() as held:
                turns: dict[str, Callable[[], object]] = {
                    "plain sockets": lambda data=data: (sock.sendall(data), fill(sock, data))
                }
                for name, where in {"server": None, **({"server, TLS 1.3": keys} if keys else {})}.items():
                    servers, push, _ = held.enter_context(chief(plan, where))
                    turns[name] = lambda servers=servers, push=push: servers.push_and_pull([push])
                secs: dict[str, list[float]] = {name: [] for name in turns}
                for _ in range(count):
                    for name, turn in turns.items():
                        began = time.perf_counter()
                        turn()
                        secs[name].append(time.perf_counter() - began)
            middle = {name: statistics.median(each[1:]) for name, each in secs.items()}
            figures[label] = {name: round(1e3 * each, 3) for name, each in middle.items()}
            for name, each in middle.items():
                print(
                    f"{label:>7} {name:16} {1e3 * each:8.2f} ms, {each / middle['plain sockets']:5.2f} times "
                    f"plain sockets, {2e-9 * size / each:.2f} GB/s"
                )
            figures[label]["update"] = round(1e3 * update_secs(plan), 3)
            print(f"{label:>7} the update alone {figures[label]['update']:6.2f} ms")
            figures[label]["busy"] = busy = round(1e3 * busy_secs(plan, count), 3)
            print(
                f"{label:>7} a server is busy for {busy:.3f} ms a push: {1e3 / busy:,.0f} pushes/s at most "
                "on one core"
            )
    return figures


def update_secs(plan: Plan) -> float:
    """Return how long the update of a plan takes, in this process."""
    from muster.ps.contents import Contents
    from muster.ps.contents.updates import JaxDevice

    contents, function = Contents(JaxDevice()), plan.function()
    pulled, kept = plan.buffers()
    contents.declare((*pulled, *kept), ())
    contents.values.assign([(spec, np.zeros(spec.shape, spec.dtype)) for spec in (*pulled, *kept)])
    contents.register(function)
    zeros = [np.zeros(spec.size, spec.dtype) for spec in function.pushed]
    secs = []
    for _ in range(20):
        began = time.perf_counter()
        contents.run(function.fingerprint, contents.prepare(function.fingerprint, (), zeros))
        secs.append(time.perf_counter() - began)
    return statistics.median(secs)


def busy_secs(plan: Plan, count: int) -> float:
    """Return how much processor time of a server a push and pull takes."""
    with chief(plan) as (servers, push, process):
        servers.push_and_pull([push])
        before = processor_secs(process)
        for _ in range(10 * count):
            servers.push_and_pull([push])
        return (processor_secs(process) - before) / (10 * count)


def processor_secs(process: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def empty_step() -> dict[str, float]:
    """Return the median of a step that computes nothing, and what the server does in it, in milliseconds."""
    plan = momentum(1)
    with chief(plan) as (servers, push, _):
        ticket, secs = servers.take_ticket(None).number, []
        for _ in range(EMPTY_STEPS):
            began = time.perf_counter()
            ticket = servers.push_and_pull([push], ticket=ticket, wants=True)[0].answer.ticket
            secs.append(time.perf_counter() - began)
    milliseconds = 1e3 * statistics.median(secs)
    print(f"an empty step, with ticket, pull and push of one number: {milliseconds:.3f} ms")
    busy = 1e3 * busy_secs(momentum(1), 300)
    print(f"a server is busy for {busy:.3f} ms of it: {1e3 / busy:,.0f} steps/s at most on one core")
    return {"median": round(milliseconds, 4), "busy": round(busy, 4)}


def many_workers() -> dict[str, float]:
    """Return the global steps a second of workers that sleep 20 ms a step, by their number."""
    figures = {}
    print(f"workers that sleep {1e3 * STEP_SECS:.0f} ms a step:")
    for count in WORKERS:
        with server() as (address, _), contextlib.closing(connect(address, "chief 0", scalar())) as servers:
            servers.initialize([FirstValues({"float32": np.zeros(1, np.float32)}, {})], 0)
            command = [sys.executable, str(JOB), "worker", address]
            workers = [
                subprocess.Popen(
                    [*command, str(number), str(WORK_SECS)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for number in range(count)
            ]
            for worker in workers:
                worker.stdout.readline()
            for worker in workers:
                worker.stdin.write("\n")
                worker.stdin.flush()
            steps = sum(int(worker.stdout.readline()) for worker in workers)
            for worker in workers:
                worker.communicate(timeout=60)
            servers.end()
        figures[str(count)] = round(steps / WORK_SECS, 1)
        linear = figures[str(count)] / (count * figures["1"])
        print(f"  {count:2}: {figures[str(count)]:7.1f} steps/s, {100 * linear:.0f} % of linear")
    return figures


def resident(process: int) -> int:
    """Return the memory of a process now, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


def memory() -> dict[str, Any]:
    """Return how much memory values, slots and one push take in a server, beside their own size."""
    figures = {}
    for size, steps in ((LARGE_SIZE, LARGE_STEPS), (MEMORY_SIZE, MEMORY_STEPS)):
        plan = momentum(size)
        with server() as (address, process), contextlib.closing(connect(address, "chief 0", plan)) as servers:
            before = resident(process)
            zeros = {"float32": np.zeros(size, np.float32)}
            servers.initialize([FirstValues(zeros, zeros)], 0)
            taken, after = [], 0
            for step in range(steps):
                servers.push_and_pull([Pushed(zeros)])
                if step % (steps // 50) == 0:
                    taken.append(resident(process) - before)
            after = taken[-1]
            servers.end()
        needed = 3 * 4 * size  # values, slots, and the buffer of a worker
        figures[f"{4e-6 * size:.1f} MB, {steps} steps"] = {
            "peak": max(taken),
            "end": after,
            "begin": taken[1],
            "needed": needed,
        }
        print(
            f"memory of values of {4e-6 * size:.1f} MB, as many slots and a worker's buffer, "
            f"{needed / 1e6:.0f} MB: {max(taken) / 1e6:.0f} MB at most, {max(taken) / needed:.2f} times, in "
            f"{steps} steps; {taken[1] / 1e6:.1f} MB after a fiftieth, {after / 1e6:.1f} MB in the end"
        )
    return figures


def main() -> dict[str, Any]:
    """Print and return all figures."""
    with tempfile.TemporaryDirectory() as name:
        keys: Path | None = Path(name)
        try:
            make_certificates(Path(name))
        except (OSError, subprocess.CalledProcessError) as exc:
            print(f"Without TLS, since the openssl command makes no certificates: {exc}")
            keys = None
        return {
            "exchange": exchange(keys),
            "empty_step": empty_step(),
            "steps_per_sec_of_sleeping_workers": many_workers(),
            "memory": memory(),
        }


if __name__ == "__main__":
    _results.write("ps", main())
