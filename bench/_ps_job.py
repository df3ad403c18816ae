"""Run a parameter server, or a worker that sleeps, for ``bench.ps``.

Arguments: ``server [KEYS]``, which prints its port and serves until the job ends; or ``worker ADDRESS NUMBER
SECONDS``, which takes steps of 20 ms for so long after a line on stdin, and prints how many.
"""

import importlib.metadata
import selectors
import socket
import sys
import threading
import time
import uuid
from pathlib import Path

from muster.net import Acceptor, Credentials, Hello, Tls, dial
from muster.ps import PURPOSE, ArraySpec, Client, Machine, Plan, Pushed, Servers, Service

STEP_SECS = 0.02
DEADLINE = 600.0


def versions() -> dict[str, str]:
    """Return what `muster.ps.contents.updates.versions` does, without importing JAX."""
    return {"jax": importlib.metadata.version("jax")}


def credentials(keys: Path | None) -> Credentials:
    """Return a secret, and certificates from a folder if there is one."""
    return Credentials(secret=b"a secret for a benchmark", tls=None if keys is None else Tls.load(keys))


def connect(address: str, task: str, plan: Plan, keys: Path | None = None) -> Servers:
    """Join the only server of a job."""
    hello = Hello(purpose=PURPOSE, name=task, run=uuid.uuid4().hex)
    client = Client(
        "ps 0",
        lambda secs: dial(address, hello, credentials(keys), secs),
        plan,
        starts=task.startswith("chief"),
        versions=versions(),
    )
    servers = Servers([client])
    servers.join()
    return servers


def scalar() -> Plan:
    """Return a plan of one number, which nothing updates."""
    return Plan(pulled=(ArraySpec("scalar", (1,), "float32"),))


def serve(keys: Path | None) -> None:
    """Serve until the job ends."""
    from muster.ps.contents.updates import JaxDevice

    device = JaxDevice()
    machine = Machine(device, name="ps 0", run=uuid.uuid4().hex, keeps_step=True, versions=versions())
    service = Service(machine)
    service.start()
    with selectors.DefaultSelector() as selector, socket.create_server(("localhost", 0)) as listener:
        Acceptor(
            selector,
            [listener],
            credentials(keys),
            lambda: "ps 0",
            {PURPOSE: service.serve},
        )
        print(listener.getsockname()[1], flush=True)
        ended = threading.Event()
        threading.Thread(target=lambda: (service.join(), ended.set()), daemon=True).start()
        while not ended.is_set():
            for key, mask in selector.select(0.1):
                key.data(mask)
    service.close()


def work(address: str, number: int, secs: float) -> None:
    """Take a ticket, sleep, push and pull, again and again."""
    servers = connect(address, f"worker {number}", scalar())
    ticket = servers.take_ticket(None).number
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + secs
    steps = 0
    while time.monotonic() < until:
        time.sleep(STEP_SECS)
        ticket = servers.push_and_pull([Pushed({})], ticket=ticket, wants=True)[0].answer.ticket
        steps += 1
    print(steps, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    else:
        work(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
