"""Hosts that are one machine: each has a network, an address, processes, a name and a disk of its own.

A host is a set of Linux' namespaces, which a process holds. A link joins it to a switch, a bridge in one
more namespace; links can be cut and mended. Since not every kernel can slow links, a switch can be made slow
instead: then this module passes on the frames, run as a program. Everything ends with the process that has
made it, even with one that is killed, since whatever holds a namespace reads from a pipe until its end.
"""

import contextlib
import heapq
import os
import random
import selectors
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

NETWORK = "10.98.7"
_TOOLS = ("ip", "unshare", "nsenter")
_NEW = ("--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")
# Of Linux' packet(7), which Python does not name: all protocols; the kind of frames that this host has sent;
# the option for a head before each frame, which says what is left for the device to do, such as checksums.
_ALL, _SENT, _LEVEL, _HEADS = 3, 4, 263, 15
_LONGEST_FRAME = 1 << 17


def hold(command, script, **options):
    """Start a shell in new namespaces which holds them until its standard input ends."""
    process = subprocess.Popen(
        [*command, "sh", "-c", f"set -e\n{script}\necho up\ncat\n:"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    if process.stdout.readline() != "up\n":
        _, said = process.communicate()
        pytest.fail(f"{script}: {said.strip()}")
    return process


def release(process):
    with process.stdin, process.stdout, process.stderr:
        process.kill()
        process.wait()


class Host:
    """A machine of its own.

    Attributes:
        address: What others call it.
        disk: A folder at the same path on each host, whose contents are its own.
        enter: The words before a command that is to use its network, while all else is that of this machine.
        enter_with_disk: Those for its network and its disk.
    """

    def __init__(self, number, disk, setup=":"):
        self.name, self.address, self.disk = f"host-{number}", f"{NETWORK}.{number}", disk
        self.port = f"port{number}"
        script = f"hostname {self.name}\nmount -t tmpfs disk {disk}\nip link set lo up\n{setup}"
        self.process = hold(["unshare", *_NEW], script)
        spaces = f"/proc/{self.process.pid}/ns"
        self.enter = ["nsenter", f"--net={spaces}/net", "--"]
        self.enter_with_disk = ["nsenter", f"--net={spaces}/net", f"--mount={spaces}/mnt", "--"]

    def run(self, *command):
        """Run a command on the host, and return its output."""
        return _run("nsenter", "--target", str(self._first_process), "--all", "--", *command)

    @property
    def _first_process(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text())


class Network:
    """Hosts on a switch.

    Args:
        folder: An empty folder, in which hosts see their disks.
        count: The number of hosts.
        setup: What a shell does on each first, in the background say.
    """

    def __init__(self, folder, count, setup=":"):
        if os.geteuid() or (missing := [name for name in _TOOLS if shutil.which(name) is None]):
            why = "root" if os.geteuid() else f"{', '.join(missing)}: apt-get install iproute2 util-linux"
            pytest.skip(f"Network namespaces need {why}.")
        tried = subprocess.run(["unshare", *_NEW, "true"], capture_output=True, text=True, timeout=30)
        if tried.returncode:
            pytest.skip(f"This system makes no namespaces: {tried.stderr.strip()}")
        disk = folder / "disk"
        disk.mkdir()
        self._left = contextlib.ExitStack()
        self._relay = None
        with contextlib.ExitStack() as made:
            made.callback(self.close)
            self._switch = hold(["unshare", "--net"], "ip link add switch type bridge; ip link set switch up")
            self._left.callback(release, self._switch)
            self.hosts = [self._join(Host(number + 1, disk, setup)) for number in range(count)]
            made.pop_all()

    def _join(self, host):
        self._left.callback(release, host.process)
        peer = ["type", "veth", "peer", "name", "eth0", "netns", str(host.process.pid)]
        self._ip("link", "add", host.port, *peer)
        self._ip("link", "set", host.port, "master", "switch", "up")
        for words in (["address", "add", f"{host.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            _run(*host.enter, "ip", *words)
        return host

    def cut(self, host):
        """Take a host off the network."""
        self._ip("link", "set", host.port, "down")

    def mend(self, host):
        """Bring a host back that was cut off."""
        self._ip("link", "set", host.port, "up")

    def slow(self, delay_secs, loss):
        """Pass on each frame so much later, and lose this part of them."""
        ports = [host.port for host in self.hosts]
        for port in ports:
            self._ip("link", "set", port, "nomaster")
        command = [*self._enter, sys.executable, __file__, str(delay_secs), str(loss), *ports]
        self._relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._relay.stdout.readline() == "up\n"

    def close(self):
        if self._relay is not None:
            with self._relay.stdin, self._relay.stdout:
                self._relay.kill()
                self._relay.wait()
        self._left.close()

    @property
    def _enter(self):
        return ["nsenter", f"--net=/proc/{self._switch.pid}/ns/net", "--"]

    def _ip(self, *words):
        _run(*self._enter, "ip", *words)


@contextlib.contextmanager
def network(folder, count, setup=":"):
    """Make a network of hosts, and take it down."""
    made = Network(folder, count, setup)
    try:
        yield made
    finally:
        made.close()


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def relay(delay_secs, loss, ports):
    """Pass on frames between the interfaces of this network, until standard input ends."""
    sockets = []
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for port in ports:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        sock.setsockopt(_LEVEL, _HEADS, 1)
        sock.bind((port, _ALL))
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ)
        sockets.append(sock)
    print("up", flush=True)
    waiting, number = [], 0
    while True:
        due = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in selector.select(due):
            if key.fileobj is sys.stdin:
                return
            with contextlib.suppress(OSError):  # the link is down
                frame, (*_, kind, _, _) = key.fileobj.recvfrom(_LONGEST_FRAME)
                if kind != _SENT and random.random() >= loss:
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + delay_secs, number, key.fileobj, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            *_, source, frame = heapq.heappop(waiting)
            for sock in sockets:
                if sock is not source:
                    with contextlib.suppress(OSError):  # likewise, or its queue is full
                        sock.send(frame)


if __name__ == "__main__":
    relay(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
