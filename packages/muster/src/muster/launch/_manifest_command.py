"""``muster manifest``: its options and their checks."""

import argparse
import functools
import sys

from muster._commands import add_command, add_options
from muster._errors import ClusterError
from muster.launch._command import MANAGER_TYPES, add_program_options, amount, program_of, shape_of, variable
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


_KINDS = {
    "kubernetes": "a Secret, a headless Service and an Indexed Job for each type of task, for kubectl apply",
    "jobset": "a Secret and a JobSet, for kubectl apply",
    "tfjob": "a Secret and a TFJob for Kubeflow's training operator, for kubectl apply",
    "trainjob": "a Secret, a TrainingRuntime and a TrainJob for Kubeflow Trainer, for kubectl apply",
    "slurm": "a batch script, for sbatch",
}


def add_manifest_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``manifest`` to the commands of a parser, with a ``handler`` as ``run`` has.

    Args:
        commands: The result of ``ArgumentParser.add_subparsers``.
    """
    parser = add_command(commands, "manifest")
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    for kind, description in _KINDS.items():
        _add_options(
            kinds.add_parser(kind, help=description, description=f"Print {description}.", allow_abbrev=False),
            kind,
        )
    add_command(kinds, "dockerfile").set_defaults(handler=_print_dockerfile)


def _print_dockerfile(args: argparse.Namespace) -> int:

    sys.stdout.write(dockerfile(base=args.base, workdir=args.workdir, requirements=args.requirements))
    return 0


def _add_options(parser: argparse.ArgumentParser, kind: str) -> None:
    types = {**MANAGER_TYPES, "amount": amount, "variable": variable}
    devices_help = "GPUs of each task that trains (default: none)"
    add_options(parser, "kind", types, devices_option="--gpus", devices_help=devices_help)
    add_options(parser, "slurm" if kind == "slurm" else "kubernetes", types)
    if kind == "trainjob":
        add_options(parser, "trainjob", types)
    add_program_options(parser, "the program, where it is on the hosts")
    parser.set_defaults(handler=functools.partial(_print, parser, kind), restarts=3)


def _print(parser: argparse.ArgumentParser, kind: str, args: argparse.Namespace) -> int:
    # Imported late: the help of the command must not wait for the YAML library.
    import yaml

    from muster.launch._kubernetes import OBJECTS
    from muster.launch._manifest import manifest_of
    from muster.launch._slurm import sbatch_script

    try:
        manifest = manifest_of(args, shape_of(args), program_of(parser, args))
    except ClusterError as exc:
        parser.error(str(exc))
    if manifest.shape.is_elastic and kind in ("slurm", "tfjob"):
        whole = (
            "srun ends all tasks when one fails" if kind == "slurm" else "its controller knows nothing of it"
        )
        parser.error(
            f"a job whose workers come and go is not for {kind}: {whole}. Ask for a number of --workers, "
            "without --virtual-replicas; or for kubernetes, jobset or trainjob"
        )
    if kind == "slurm":
        sys.stdout.write(sbatch_script(manifest))
        return 0
    describe = OBJECTS[kind]
    # Lines are not folded: TF_CONFIG is JSON, and easier to read in one piece.
    yaml.safe_dump_all(describe(manifest, make_secret()), sys.stdout, sort_keys=False, width=float("inf"))
    return 0
