"""The addresses of tasks: host and port."""

import contextlib
import ipaddress
import re

from muster._errors import ClusterError


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of ``"host:port"``. An IPv6 address must be in brackets.

    Raises:
        ClusterError: It is not of that form.
    """
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    try:
        host.encode("idna")
    except UnicodeError:
        host = ""
    if re.search(r"[\s/]", host) or not host.isprintable():
        host = ""
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ClusterError(
            f"The address of a task must be host:port, such as 10.0.0.1:2222 or [::1]:2222. "
            f"Given: {address!r}."
        )
    return host, int(port)


def same_spelling(address: str) -> str:
    """Return one spelling for all of an address: ``LOCALHOST:07811`` and ``127.0.0.1:7811`` are the same."""
    try:
        host, port = split_address(address)
    except ClusterError:
        return address
    with contextlib.suppress(ValueError):
        host = ipaddress.ip_address(host).compressed
    host = host.lower().removesuffix(".")
    return f"{'localhost' if host in ('127.0.0.1', '::1') else host}:{port}"
