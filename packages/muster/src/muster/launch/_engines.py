"""Make the engine that the options of ``muster run`` name."""

import argparse
import errno
import os
import shlex
from collections.abc import Mapping
from typing import Any

from muster._errors import ClusterError
from muster._extras import missing_package
from muster.cluster import RendezvousListener
from muster.engines import Engine, LocalEngine, NodesEngine, RayEngine, SshEngine, SshHost, this_machine
from muster.launch._plan import handed_over
from muster.launch._sync import pack_folder
from muster.net import SECRET, SECRET_FILE, Credentials, split_address

# The options that are for hosts elsewhere.
_ELSEWHERE = ("python", "workdir", "ssh_command", "sync")


def make_engine(
    args: argparse.Namespace, program: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[Engine, dict[str, str]]:
    """Return an engine, and the variables that its tasks are handed.

    Args:
        args: The options.
        program: The words after the interpreter.
        environ: The launcher's environment.

    Raises:
        ClusterError: There is no such engine, or its options make no sense.
        AnotherLauncherError: Another launcher runs the job.
    """
    if args.nodes is not None:
        return _nodes_engine(args, environ)
    kind, colon, rest = args.on.partition(":")
    if kind == "local" and not colon:
        for name in _ELSEWHERE:
            if getattr(args, name):
                option = f"--{name.replace('_', '-')}"
                raise ClusterError(f"{option} is for tasks on other hosts: give it with --on ssh:HOST,…")
        return LocalEngine(this_machine(environ), grace_secs=args.grace_secs), dict(environ)
    handed = handed_over(environ) | dict(args.env)
    common: dict[str, Any] = {
        "grace_secs": args.grace_secs,
        "environ": handed,
        "workdir": args.workdir or os.getcwd(),
        "files": pack_folder(program) if args.sync else b"",
    }
    if kind == "ssh":
        if args.python is not None:
            common["python"] = args.python
        if args.ssh_command:
            common["command"] = shlex.split(args.ssh_command)
        hosts = [SshHost.parse(host) for host in rest.split(",") if host]
        return SshEngine(hosts, **common), handed
    if kind == "ray":
        if missing := missing_package(("ray",), "ray"):
            raise ClusterError(missing)
        return RayEngine(rest or "auto", **common), handed
    raise ClusterError(f"There is no engine {args.on!r}. Choose local, ssh:HOST,HOST,… or ray.")


class AnotherLauncherError(Exception):
    """The launcher of another host runs the job, and this one is to start tasks for it."""


def _nodes_engine(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Engine, dict[str, str]]:
    """Return the engine of hosts that meet, if this is the one that the others call."""
    if args.on != "local" or args.rendezvous is None:
        raise ClusterError(
            "--nodes needs --rendezvous HOST:PORT, of one of the hosts, and goes without --on."
        )
    if args.address:
        split_address(f"{args.address}:1")
    handed = handed_over(environ) | dict(args.env)
    handed = {name: value for name, value in handed.items() if name not in (SECRET, SECRET_FILE)}
    try:
        listener = RendezvousListener(args.rendezvous, credentials_of_nodes(environ))
    except OSError as exc:
        if exc.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            raise
        raise AnotherLauncherError from None
    engine = NodesEngine(args.nodes, args.rendezvous, listener, grace_secs=args.grace_secs, environ=handed)
    return engine, handed


def credentials_of_nodes(environ: Mapping[str, str]) -> Credentials:
    """Return what launchers prove to each other.

    Raises:
        ClusterError: They have no secret. Without one, whoever comes first could run programs here.
    """
    credentials = Credentials.from_environ(environ)
    if credentials.secret is None:
        raise ClusterError(
            f"The launchers of --nodes need a secret, the same on all hosts: set {SECRET_FILE} to a file of "
            "it that only you may read. A good one is made by: "
            "python -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return credentials
