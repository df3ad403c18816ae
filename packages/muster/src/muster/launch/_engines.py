"""Make the engine that the options of ``muster run`` name."""

import argparse
import errno
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from muster._errors import ClusterError
from muster._extras import missing_package
from muster.cluster import RendezvousListener
from muster.engines import (
    Engine,
    KubernetesEngine,
    LocalEngine,
    NodesEngine,
    RayEngine,
    SshEngine,
    SshHost,
    TaskRequest,
    this_machine,
)
from muster.launch._plan import JobShape, handed_over
from muster.launch._sync import pack_folder
from muster.net import SECRET, SECRET_FILE, Credentials, split_address

# How long tasks may take to end after a signal, unless told otherwise, in seconds.
GRACE_SECS = 4.0
# The options that are for hosts elsewhere; those for Kubernetes alone, and those that it has no use for.
_ELSEWHERE = ("python", "workdir", "ssh_command", "sync")
_IN_PODS = ("image", "name", "namespace", "queue", "volume", "pod", "shm", "tls_secret", "detach")
_NOT_IN_PODS = ("devices_per_worker", "profile", "sync", "ssh_command", "oversubscribe")
_KINDS = ("kubernetes", "jobset", "trainjob")


def make_engine(
    args: argparse.Namespace, shape: JobShape, program: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[Engine, dict[str, str]]:
    """Return an engine, and the variables that its tasks are handed.

    Args:
        args: The options.
        shape: The tasks.
        program: The words after the interpreter.
        environ: The launcher's environment, with the secret of the job.

    Raises:
        ClusterError: There is no such engine, or its options make no sense.
        AnotherLauncherError: Another launcher runs the job.
    """
    kind, colon, rest = args.on.partition(":")
    if kind == "kubernetes" and args.nodes is None:
        return _kubernetes_engine(args, rest if colon else kind, shape, program, environ)
    _refuse(args, _IN_PODS, "is for Kubernetes: give it with --on kubernetes")
    if args.nodes is not None:
        return _nodes_engine(args, environ)
    if kind == "local" and not colon:
        _refuse(args, _ELSEWHERE, "is for tasks on other hosts: give it with --on ssh:HOST,…")
        return LocalEngine(this_machine(environ), grace_secs=_grace_secs(args)), dict(environ)
    handed = handed_over(environ) | dict(args.env)
    common: dict[str, Any] = {
        "grace_secs": _grace_secs(args),
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
    raise ClusterError(f"There is no engine {args.on!r}. Choose local, ssh:HOST,HOST,…, ray or kubernetes.")


def _grace_secs(args: argparse.Namespace) -> float:
    return GRACE_SECS if args.grace_secs is None else float(args.grace_secs)


def _refuse(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise ClusterError if an option was given that makes no sense."""
    for name in names:
        if getattr(args, name):
            raise ClusterError(f"--{name.replace('_', '-')} {why}")


def _kubernetes_engine(
    args: argparse.Namespace,
    kind: str,
    shape: JobShape,
    program: tuple[str, ...],
    environ: Mapping[str, str],
) -> tuple[Engine, dict[str, str]]:
    """Return the engine of a cluster of Kubernetes, and what the launcher shares with its tasks."""
    # Imported late: nothing else needs the YAML library.
    import yaml

    from muster.launch._kubernetes import OBJECTS, host_names
    from muster.launch._manifest import manifest_of

    if kind not in _KINDS:
        raise ClusterError(
            f"There is no kind of job {kind!r} in Kubernetes that `muster run` watches. Choose kubernetes, "
            "kubernetes:jobset or kubernetes:trainjob; `muster manifest` prints others for kubectl."
        )
    _refuse(args, _NOT_IN_PODS, "makes no sense in Kubernetes")
    if not args.image:
        raise ClusterError(
            "--on kubernetes needs --image, with the program in it. How to build one is printed by: "
            "muster manifest dockerfile"
        )
    if args.queue and kind == "kubernetes" and len({task.type for task in shape.tasks}) > 1:
        raise ClusterError(
            "With --queue each type of task would be let in alone, and wait for the others. Take "
            "--on kubernetes:jobset, which is let in as a whole."
        )
    if missing := missing_package(("kubernetes",), "kubernetes"):
        raise ClusterError(missing)
    args.name = args.name or _new_name(program)
    args.env = [("PYTHONHASHSEED", environ["PYTHONHASHSEED"]), *args.env]
    manifest = manifest_of(args, shape, program)
    handed = handed_over(environ)
    objects = OBJECTS[kind](manifest, handed[SECRET])
    one = kind != "kubernetes"
    engine = KubernetesEngine(
        objects,
        name=manifest.name,
        hosts=host_names(manifest, kind),
        port=manifest.port,
        workload_of={task: manifest.name if one else f"{manifest.name}-{task.type}" for task in shape.tasks},
        manifest=yaml.safe_dump_all(objects, sort_keys=False, width=float("inf")),
        namespace=manifest.namespace,
        pending_secs=args.pending_secs,
    )
    return engine, handed


def _new_name(program: tuple[str, ...]) -> str:
    """Return a name for a job that no other has: that of its program, and some digits."""
    words = program[1] if program[0] == "-m" else os.path.basename(program[0]).removesuffix(".py")
    name = re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")[:30].rstrip("-")
    return f"{name if name[:1].isalpha() else f'job-{name}'.rstrip('-')}-{secrets.token_hex(3)}"


def submit_job(engine: Engine, shape: JobShape, request: TaskRequest, program: tuple[str, ...]) -> str:
    """Hand a job over to a cluster, and return what to say of it, for people.

    Raises:
        ClusterError: The cluster refuses.
    """
    if not isinstance(engine, KubernetesEngine):
        raise RuntimeError("Only a cluster manager takes a job over.")
    engine.place(shape.tasks, request, program)
    engine.submit()
    engine.detach()
    engine.close()
    name = f"kubernetes:{engine.job.api.namespace}/{engine.job.name}"
    return (
        f"The cluster has the job {name}.\n  muster status {name}\n  muster logs -f --job {name}\n"
        f"  muster stop {name}"
    )


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
    engine = NodesEngine(args.nodes, args.rendezvous, listener, grace_secs=_grace_secs(args), environ=handed)
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
