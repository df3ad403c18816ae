"""Make the engine that the options of ``muster run`` name."""

import argparse
import errno
import os
import re
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence

from muster._errors import ClusterError
from muster._extras import missing_package
from muster.cluster import RendezvousListener
from muster.engines import (
    Engine,
    HostOptions,
    KubernetesEngine,
    LocalEngine,
    NodesEngine,
    RayEngine,
    SlurmEngine,
    SlurmPart,
    SshEngine,
    SshHost,
    this_machine,
)
from muster.launch._plan import JobShape, handed_over
from muster.launch._sync import pack_folder
from muster.net import SECRET, SECRET_FILE, Credentials, split_address

# The variable that says where tasks write their profiles.
PROFILE = "MUSTER_PROFILE"
# How long tasks may take to end after a signal, unless told otherwise, in seconds.
GRACE_SECS = 4.0
# The options that are for hosts elsewhere; for cluster managers; for Kubernetes, and for Slurm alone; and
# those that Kubernetes has no use for.
_ELSEWHERE = ("python", "workdir", "ssh_command", "sync")
_MANAGED = ("image", "name", "detach")
_IN_PODS = ("namespace", "queue", "volume", "pod", "shm", "tls_secret")
_IN_SLURM = ("sbatch", "setup", "mount", "tasks_per_node")
_NOT_IN_PODS = ("devices_per_worker", "sync", "ssh_command", "oversubscribe")
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
        _refuse(args, _IN_SLURM, "is for Slurm: give it with --on slurm")
        return _kubernetes_engine(args, rest if colon else kind, shape, program, environ)
    _refuse(args, _IN_PODS, "is for Kubernetes: give it with --on kubernetes")
    if args.on == "slurm" and args.nodes is None:
        return _slurm_engine(args, shape, program, environ)
    _refuse(args, _IN_SLURM, "is for Slurm: give it with --on slurm")
    _refuse(args, _MANAGED, "is for cluster managers: give it with --on kubernetes or --on slurm")
    if args.nodes is not None:
        return _nodes_engine(args, environ)
    if kind == "local" and not colon:
        _refuse(args, _ELSEWHERE, "is for tasks on other hosts: give it with --on ssh:HOST,…")
        return LocalEngine(this_machine(environ), grace_secs=_grace_secs(args)), dict(environ)
    options, handed = _of_agents(args, program, environ)
    if kind == "ssh":
        hosts = [SshHost.parse(host) for host in rest.split(",") if host]
        command = shlex.split(args.ssh_command or "ssh")
        return SshEngine(hosts, options, command=command, python=args.python or sys.executable), handed
    if kind == "ray":
        if missing := missing_package(("ray",), "ray"):
            raise ClusterError(missing)
        return RayEngine(rest or "auto", options), handed
    raise ClusterError(
        f"There is no engine {args.on!r}. Choose local, ssh:HOST,HOST,…, ray, slurm or kubernetes."
    )


def _of_agents(
    args: argparse.Namespace, program: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[HostOptions, dict[str, str]]:
    """Return what tasks on hosts have in common, and the variables that they are handed."""
    handed = handed_over(environ) | dict(args.env)
    options = HostOptions(
        grace_secs=_grace_secs(args),
        environ=handed,
        workdir=args.workdir or os.getcwd(),
        files=pack_folder(program) if args.sync else b"",
    )
    return options, handed


def _slurm_engine(
    args: argparse.Namespace, shape: JobShape, program: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[Engine, dict[str, str]]:
    """Return the engine of a cluster of Slurm, and the variables that its tasks are handed."""
    from muster.launch._manifest import manifest_of
    from muster.launch._slurm import container_options, parts_of_job, sbatch_script

    _refuse(args, ("ssh_command",), "makes no sense in Slurm")
    if args.detach:
        _refuse(args, ("sync", "page"), "needs a launcher: leave out --detach")
        if shape.is_elastic:
            raise ClusterError(
                "A job whose workers come and go needs its launcher, as srun ends all tasks when one fails: "
                "leave out --detach."
            )
    args.name = args.name or _new_name(program)
    # An image and a script of its own find their interpreter; else it is the one that runs this.
    args.python = args.python or ("python" if args.image or args.setup else sys.executable)
    options, handed = _of_agents(args, program, environ)
    args.env = [*_said_in_manifest(environ), *args.env]
    manifest = manifest_of(args, shape, program)
    engine = SlurmEngine(
        manifest.name,
        [SlurmPart(tuple(tasks), tuple(asked)) for tasks, asked in parts_of_job(manifest)],
        options,
        script=sbatch_script(manifest),
        needs_launcher=shape.is_elastic,
        python=args.python,
        setup=manifest.setup,
        srun=container_options(manifest),
    )
    return engine, handed


def _said_in_manifest(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables by which tasks that no launcher starts are alike, and where their profiles go."""
    return [(name, environ[name]) for name in ("PYTHONHASHSEED", PROFILE) if name in environ]


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
    if args.detach:
        _refuse(args, ("page",), "needs a launcher: leave out --detach")
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
    if "://" not in (profile := environ.get(PROFILE, "://")):
        raise ClusterError(
            f"--profile {profile} is a folder that would go with each pod: name a URL of an object store, "
            "such as --profile s3://bucket/profile."
        )
    args.env = [*_said_in_manifest(environ), *args.env]
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
    options = HostOptions(grace_secs=_grace_secs(args), environ=handed)
    engine = NodesEngine(args.nodes, args.rendezvous, listener, options)
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
