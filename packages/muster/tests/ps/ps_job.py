"""Servers in this process, over real sockets, and clients of them."""

import contextlib
import selectors
import socket
import threading
import time
import uuid

from ps_rows import VERSIONS, AddingDevice

from muster.net import NO_CREDENTIALS, Acceptor, Hello, dial
from muster.ps._client import Client
from muster.ps._keeper import Keeper
from muster.ps._machine import Machine
from muster.ps._messages import PURPOSE
from muster.ps._recovery import no_snapshot
from muster.ps._servers import Servers
from muster.ps._service import Service

SECS = 60.0


class Served:
    """A server that runs."""

    def __init__(self, service, machine, address):
        self.service, self.machine, self.address = service, machine, address

    def dial(self, task, run="run", credentials=NO_CREDENTIALS, job=""):
        hello = Hello(purpose=PURPOSE, name=task, job=job, run=run)
        return lambda secs: dial(self.address, hello, credentials, secs)

    def client(self, plan, task, run="run", dialed=None, secs=SECS, versions=VERSIONS):
        return Client(
            f"ps 0 ({self.address})",
            dialed or self.dial(task, run),
            plan,
            starts=task.startswith("chief"),
            versions=versions,
            deadline_secs=secs,
        )


@contextlib.contextmanager
def accepting(handler, credentials=NO_CREDENTIALS, port=0):
    """Hand over the connections at a port of loopback; yields the address."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", port)) as listener, selectors.DefaultSelector() as selector:
        acceptor = Acceptor(selector, [listener], credentials, lambda: "ps 0", {PURPOSE: handler})

        def run():
            while not ended.is_set():
                for key, mask in selector.select(0.05):
                    key.data(mask)
                acceptor.tidy()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"localhost:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()
            acceptor.close()


def kept(folder, updates=None):
    """What keeps a server in a folder."""
    return Keeper(folder, None, updates)


@contextlib.contextmanager
def served(
    device=None,
    versions=VERSIONS,
    credentials=NO_CREDENTIALS,
    port=0,
    keeper=None,
    report=None,
    job="",
):
    machine = Machine(
        device or AddingDevice(),
        name="ps 0",
        run=uuid.uuid4().hex,
        keeps_step=True,
        versions=versions,
        find=keeper.find if keeper else no_snapshot,
        record=keeper.record if keeper else None,
    )
    service = Service(machine, keeper, report and (lambda: report(machine.statistics(time.monotonic()))))
    service.start(job)
    try:
        with accepting(service.serve, credentials, port) as address:
            yield Served(service, machine, address)
    finally:
        service.close()


@contextlib.contextmanager
def worker(server, plan, task="worker 0", **options):
    """The only server of a job, as a worker sees it."""
    servers = Servers([server.client(plan, task, **options)])
    try:
        servers.join()
        yield servers
    finally:
        servers.close()
