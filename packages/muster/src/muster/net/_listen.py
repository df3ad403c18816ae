"""Listen at a task's address."""

import contextlib
import errno
import ipaddress
import os
import socket

from muster._errors import RosterError
from muster.net._address import split_address

# How many connections may wait to be accepted: those of a large job that starts, and of strangers.
BACKLOG = 1024


def listen(address: str) -> list[socket.socket]:
    """Listen at a task's address, exclusively.

    IP addresses and ``localhost`` are bound as they are. A name is bound to the interfaces that it resolves
    to, or to all interfaces if it resolves to none of this host (a Kubernetes service) or to the loopback, as
    a host's name often does on that host and nowhere else. All interfaces are bound, too, for the address of
    another host (that of a container's host, or of a gateway that translates addresses).

    Args:
        address: ``"host:port"``.

    Raises:
        OSError: Another process listens there, or this one may not.
    """
    host, port = split_address(address)
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(sock) for sock in _bind_all(_interfaces(host, port))]
        if not sockets:
            sockets = [opened.enter_context(_bind_every_interface(port))]
        for sock in sockets:
            # Two sockets that may reuse an address can both be bound to it: the second cannot listen.
            sock.listen(BACKLOG)
        opened.pop_all()
        return sockets


def free_address(address: str) -> tuple[str, str]:
    """Return where another service of the task at an address can listen, at a free port.

    Returns:
        The address for the other tasks, and the one to listen at: at one of the interfaces that `listen`
        takes, or at all where it takes all of them.
    """
    host, _ = split_address(address)
    with contextlib.ExitStack() as opened:
        probes = [opened.enter_context(probe) for probe in _bind_all(_interfaces(host, 0))]
        probe = probes[0] if probes else opened.enter_context(_bind_every_interface(0))
        interface, port = probe.getsockname()[:2]
    return _joined(host, port), _joined(interface, port)


def adopt_listener(descriptor: str) -> socket.socket:
    """Return the listening socket that the parent of this process has opened.

    Args:
        descriptor: The number of the file descriptor, as text.

    Raises:
        RosterError: It is not such a socket.
    """
    try:
        sock = socket.socket(fileno=int(descriptor))
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if not listens:
            sock.detach()
            raise ValueError("It does not listen.")
    except (ValueError, OSError) as exc:
        raise RosterError(
            f"MUSTER_LISTEN_FD is {descriptor!r}, which is not the number of a listening socket of this "
            "process. It is meant for the direct child of a launcher: unset it for any other process."
        ) from exc
    os.set_inheritable(sock.fileno(), False)  # or a child of this process would hold the port after its end
    return sock


def copied_listener(descriptor: str) -> str:
    """Return a copy of such a descriptor, which may be adopted and closed, while the first one stays.

    Raises:
        RosterError: It is not one.
    """
    sock = adopt_listener(descriptor)
    try:
        return str(os.dup(sock.fileno()))
    finally:
        sock.detach()


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_Address = tuple[socket.AddressFamily, tuple[str | int | bytes, ...]]


def _interfaces(host: str, port: int) -> list[_Address]:
    """Return the addresses of a name, or nothing to listen at all interfaces."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses: list[_Address] = list(
        dict.fromkeys((family, tuple(where)) for family, _, _, _, where in found)
    )
    plain = host == "localhost" or _is_number(host)
    if not plain and any(ipaddress.ip_address(where[0]).is_loopback for _, where in addresses):
        return []
    return addresses


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _bind_all(addresses: list[_Address]) -> list[socket.socket]:
    """Bind to those addresses that belong to this host."""
    with contextlib.ExitStack() as opened:
        bound = []
        for family, where in addresses:
            try:
                bound.append(opened.enter_context(_bind(family, where)))
            except OSError as exc:
                if exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
        opened.pop_all()
        return bound


def _bind_every_interface(port: int) -> socket.socket:
    try:
        return _bind(socket.AF_INET6, ("::", port), only_v6=False)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise
        return _bind(socket.AF_INET, ("0.0.0.0", port))  # a host without IPv6


def _bind(family: int, where: tuple[str | int | bytes, ...], *, only_v6: bool = True) -> socket.socket:
    with contextlib.ExitStack() as opened:
        sock = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
        # The kernel keeps connections of a job that has just ended. Two listeners are refused all the same.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_v6)
        sock.bind(where)
        opened.pop_all()
        return sock
