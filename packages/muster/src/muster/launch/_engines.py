"""Make the engine that the options of ``muster run`` name."""

import argparse
import os
import shlex
from collections.abc import Mapping

from muster._errors import ClusterError
from muster.engines import Engine, LocalEngine, SshEngine, SshHost, this_machine
from muster.launch._plan import handed_over
from muster.launch._sync import pack_folder

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
    """
    kind, colon, rest = args.on.partition(":")
    if kind == "local" and not colon:
        for name in _ELSEWHERE:
            if getattr(args, name):
                option = f"--{name.replace('_', '-')}"
                raise ClusterError(f"{option} is for tasks on other hosts: give it with --on ssh:HOST,…")
        return LocalEngine(this_machine(environ), grace_secs=args.grace_secs), dict(environ)
    handed = handed_over(environ) | dict(args.env)
    if kind == "ssh":
        options = {} if args.python is None else {"python": args.python}
        if args.ssh_command:
            options["command"] = shlex.split(args.ssh_command)
        engine = SshEngine(
            [SshHost.parse(host) for host in rest.split(",") if host],
            grace_secs=args.grace_secs,
            environ=handed,
            workdir=args.workdir or os.getcwd(),
            files=pack_folder(program) if args.sync else b"",
            **options,
        )
        return engine, handed
    raise ClusterError(f"There is no engine {args.on!r}. Choose local, or ssh:HOST,HOST,…")
