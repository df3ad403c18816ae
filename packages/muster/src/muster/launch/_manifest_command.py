"""``muster manifest``: its options and their checks."""

import argparse
import functools
import re
import sys

from muster._errors import ClusterError
from muster.launch._options import add_job_options, add_program_options, integer, program_of, shape_of
from muster.net import make_secret

_DOCKERFILE = """\
# docker build --tag IMAGE . && docker push IMAGE, in the folder of the program
FROM {base}
WORKDIR {workdir}
# Before the program, so that a change of it installs nothing again.
COPY {requirements} ./
RUN pip install --no-cache-dir --requirement {requirements}
COPY . .
ENV PYTHONUNBUFFERED=1
# The manifest says which program each task runs.
CMD ["python"]
"""


def dockerfile(*, base: str, workdir: str, requirements: str) -> str:
    """Return a Dockerfile for the folder of a program.

    Args:
        base: The image that it starts from, with Python.
        workdir: The folder of the program in the image.
        requirements: The file that names what pip installs, muster among it.
    """
    return _DOCKERFILE.format(base=base, workdir=workdir, requirements=requirements)


_DESCRIPTION = "Print a description of a job, like that of `muster run`, for a cluster manager."

_KINDS = {
    "kubernetes": "a Secret, a headless Service and an Indexed Job for each type of task, for kubectl apply",
    "tfjob": "a Secret and a TFJob for Kubeflow's training operator, for kubectl apply",
    "trainjob": "a Secret, a TrainingRuntime and a TrainJob for Kubeflow Trainer, for kubectl apply",
    "slurm": "a batch script, for sbatch",
}


def add_manifest_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``manifest`` to the commands of a parser, with a ``handler`` as ``run`` has.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = commands.add_parser(
        "manifest",
        help="print a Kubernetes, Kubeflow or Slurm manifest for a job",
        description=_DESCRIPTION,
    )
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    for kind, description in _KINDS.items():
        _add_options(
            kinds.add_parser(kind, help=description, description=f"Print {description}.", allow_abbrev=False),
            kind,
        )
    image = "a Dockerfile for the image of a job on Kubernetes, to be kept beside the program"
    _add_dockerfile_options(kinds.add_parser("dockerfile", help=image, description=f"Print {image}."))


def _add_dockerfile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base",
        default="python:3.12-slim",
        metavar="IMAGE",
        help="what it starts from (default: %(default)s)",
    )
    parser.add_argument(
        "--workdir", default="/app", metavar="DIR", help="the folder of the program (default: %(default)s)"
    )
    parser.add_argument(
        "--requirements",
        default="requirements.txt",
        metavar="FILE",
        help="what pip installs, muster among it (default: %(default)s)",
    )
    parser.set_defaults(handler=_print_dockerfile)


def _print_dockerfile(args: argparse.Namespace) -> int:

    sys.stdout.write(dockerfile(base=args.base, workdir=args.workdir, requirements=args.requirements))
    return 0


def _add_options(parser: argparse.ArgumentParser, kind: str) -> None:
    parser.add_argument("--name", required=True, help="what the job is called")
    add_job_options(parser, "--gpus", "GPUs of each task that trains (default: none)", restarts=3)
    parser.add_argument("--cpus", type=integer(1), metavar="N", help="cores that each task asks for")
    parser.add_argument("--python", default="python", help="the interpreter there (default: python)")
    parser.add_argument(
        "--memory", type=_amount, metavar="SIZE", help="memory that each task asks for, such as 8Gi"
    )
    parser.add_argument(
        "--workdir", default="", metavar="DIR", help="the working directory of the program there"
    )
    parser.add_argument(
        "--env",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable of all tasks; may be given several times",
    )
    if kind == "slurm":
        parser.add_argument(
            "--tasks-per-node",
            type=integer(1),
            default=1,
            metavar="N",
            help="how many tasks may share a host (default: 1)",
        )
    else:
        parser.add_argument("--image", required=True, help="the container image")
        parser.add_argument(
            "--volume",
            type=_volume,
            metavar="CLAIM:PATH",
            help="a PersistentVolumeClaim, and where to mount it: all tasks must see one model directory",
        )
        parser.add_argument("--namespace", default="", metavar="NAME", help="the namespace of all objects")
        parser.add_argument(
            "--shm",
            type=_amount,
            metavar="SIZE",
            help="the size of /dev/shm, by which NCCL and worker processes share memory (default: 64 MiB, as "
            "containers have it)",
        )
        parser.add_argument(
            "--tls-secret",
            default="",
            metavar="NAME",
            help="a Secret of ca.crt, tls.crt and tls.key, as cert-manager makes it: tasks prove with it who "
            "they are, and encrypt what they tell each other",
        )
    add_program_options(parser, "the program, where it is on the hosts")
    parser.set_defaults(handler=functools.partial(_print, parser, kind))


def _volume(text: str) -> tuple[str, str]:
    claim, _, path = text.partition(":")
    if not claim or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"must be CLAIM:PATH, such as models:/models, given: {text!r}")
    return claim, path


def _amount(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]*(Ki|Mi|Gi|Ti)", text):
        raise argparse.ArgumentTypeError(
            f"must be a number and Ki, Mi, Gi or Ti, such as 8Gi, given: {text!r}"
        )
    return text


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, given: {text!r}")
    return name, value


def _print(parser: argparse.ArgumentParser, kind: str, args: argparse.Namespace) -> int:
    # Imported late: the help of the command must not wait for the YAML library.
    import yaml

    from muster.launch._kubernetes import kubernetes_objects, tfjob_objects, trainjob_objects
    from muster.launch._plan import Manifest
    from muster.launch._slurm import sbatch_script

    try:
        manifest = Manifest(
            name=args.name,
            shape=shape_of(args),
            command=(args.python, *program_of(parser, args)),
            restarts=args.restarts,
            cpus=args.cpus,
            image=getattr(args, "image", ""),
            volume=getattr(args, "volume", None),
            tasks_per_node=getattr(args, "tasks_per_node", 1),
            namespace=getattr(args, "namespace", ""),
            workdir=args.workdir,
            memory=args.memory or "",
            shm=getattr(args, "shm", None) or "",
            env=tuple(args.env),
            tls_secret=getattr(args, "tls_secret", ""),
        )
    except ClusterError as exc:
        parser.error(str(exc))
    if kind == "slurm":
        sys.stdout.write(sbatch_script(manifest))
        return 0
    makers = {"kubernetes": kubernetes_objects, "tfjob": tfjob_objects, "trainjob": trainjob_objects}
    describe = makers[kind]
    # Lines are not folded: TF_CONFIG is JSON, and easier to read in one piece.
    yaml.safe_dump_all(describe(manifest, make_secret()), sys.stdout, sort_keys=False, width=float("inf"))
    return 0
