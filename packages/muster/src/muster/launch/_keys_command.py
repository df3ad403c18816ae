"""``muster keys``: its options and their checks."""

import argparse
import functools
import ipaddress
import re
import sys
from datetime import UTC, datetime

from muster._commands import add_command
from muster._errors import ClusterError
from muster._extras import install_command, missing_package

_LONGEST_NAME = 253

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def add_keys_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``keys`` to the commands of a parser, with a ``handler`` as ``run`` has.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = add_command(commands, "keys", {"hosts": _hosts}, install_command=install_command("keys"))
    parser.set_defaults(handler=functools.partial(_make, parser))


def _hosts(text: str) -> list[str]:
    """Return the hosts of a list with commas between."""
    hosts = [host.removesuffix(".") for host in text.split(",")]
    for host in hosts:
        if not _is_host(host):
            raise argparse.ArgumentTypeError(
                f"must be names of hosts or IP addresses, without ports, with commas between; given: {text!r}"
            )
    return hosts


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        labels = text.split(".")
        return len(text) <= _LONGEST_NAME and all(re.fullmatch(_LABEL, label) for label in labels)


def _with_loopback(hosts: list[str]) -> list[str]:
    """Return hosts without repetition, and all names of this machine alone if one of them is there."""
    if any(host.lower() == "localhost" or _is_loopback(host) for host in hosts):
        hosts = [*hosts, *_LOOPBACK]
    return list(dict.fromkeys(hosts))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _make(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if missing := missing_package(("cryptography",), "keys"):
        print(f"muster keys: {missing}", file=sys.stderr)
        return 1
    # Imported late: it is installed for this command alone.
    from muster.launch._keys import AUTHORITY_DAYS, make_keys

    if args.days > AUTHORITY_DAYS:
        parser.error(f"argument --days: must be at most {AUTHORITY_DAYS}, given: {args.days}")
    hosts = _with_loopback([host for several in args.hosts for host in several])
    try:
        made, end = make_keys(args.folder, hosts, args.days, datetime.now(UTC))
    except (ClusterError, OSError) as exc:
        print(f"muster keys: {exc}", file=sys.stderr)
        return 1
    print(f"{made} is for tasks on {', '.join(hosts)}, until {end:%Y-%m-%d}.")
    print(f"Copy it to each of these machines, and set MUSTER_TLS={made.absolute()} for the tasks there.")
    print(f"Keep {args.folder / 'ca.key'} here, and secret: it makes certificates that the tasks trust.")
    return 0
