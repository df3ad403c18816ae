"""Servers with stores in this process, over real sockets, and clients of them."""

import contextlib
import selectors
import socket
import threading
import time
import uuid

from store_values import VERSIONS, NumPyDevice, made

from muster.net import NO_CREDENTIALS, Acceptor, Hello, dial
from muster.ps import PURPOSE, Machine, Servers, Service, no_snapshot
from muster.ps._keeper import Keeper

SECS = 60.0


class Serving:
    """A server that runs. Clients of a list of them go to the address that each has then."""

    def __init__(self, service, machine, address):
        self.service, self.machine, self.address = service, machine, address

    def dial(self, task, run="run", credentials=NO_CREDENTIALS, job=""):
        hello = Hello(purpose=PURPOSE, name=task, job=job, run=run)
        return lambda secs: dial(self.address, hello, credentials, secs)

    def statistics(self):
        return self.service.between(lambda: self.machine.statistics(time.monotonic()))


@contextlib.contextmanager
def serving(device=None, keeper=None, port=0, versions=VERSIONS, job="", credentials=NO_CREDENTIALS):
    machine = Machine(
        device or NumPyDevice(1 << 30),
        name="ps 0",
        run=uuid.uuid4().hex,
        versions=versions,
        find=keeper.find if keeper else no_snapshot,
        record=keeper.record if keeper else None,
    )
    service = Service(machine, keeper)
    service.start(job)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", port)) as listener, selectors.DefaultSelector() as selector:
        handlers = {PURPOSE: service.serve}
        acceptor = Acceptor(selector, [listener], credentials, lambda: "ps 0", handlers)

        def run():
            while not ended.is_set():
                for key, mask in selector.select(0.05):
                    key.data(mask)
                acceptor.tidy()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield Serving(service, machine, f"localhost:{listener.getsockname()[1]}")
        finally:
            ended.set()
            thread.join()
            acceptor.close()
            service.close()


@contextlib.contextmanager
def client(*servers, task="chief 0", origin="origin", run="run", secs=SECS, dials=None, versions=VERSIONS):
    """A client of some servers, for a task."""
    dials = dials or [server.dial(task, run) for server in servers]
    named = [
        (f"ps {index} ({each.address})", call)
        for index, (each, call) in enumerate(zip(servers, dials, strict=True))
    ]
    opened = Servers.of_program(named, origin, versions, starts=task.startswith("chief"), deadline_secs=secs)
    with contextlib.closing(opened):
        yield opened


def wait_for(condition):
    deadline = time.monotonic() + SECS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def keeper_in(folder, updates=None):
    """What keeps a store in a folder."""
    return Keeper(folder, None, updates)


def kept(folder, updates=None):
    """A machine that goes on from what is in a folder, and what keeps it there."""
    keeper = keeper_in(folder, updates)
    return made(find=keeper.find, record=keeper.record), keeper


def saved(machine, keeper):
    """Wait until a snapshot has all pushes: writing them may take no more than a part of the time."""

    def written():
        keeper.look(machine)
        keeper.wait()
        return keeper.find("origin").saved.version == machine.statistics(0.0).version

    wait_for(written)
