"""``muster where``: say by which launcher this process was started, and why."""

import argparse
import functools
import os
from typing import Any

from muster._commands import add_command
from muster._errors import ClusterError
from muster.cluster import FINDERS, find_environment, task_context


def add_where_command(commands: Any) -> None:
    """Add ``where`` to the commands of a parser; see `add_run_command`."""
    parser = add_command(commands, "where")
    parser.set_defaults(handler=functools.partial(_where, parser))


def _where(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    try:
        found = find_environment()
        print(f"Started by: {found.name}")
        for name, value in found.variables.items():
            print(f"  {name}={value}")
        if found.rendezvous is not None:
            meeting = found.rendezvous
            print(f"This task: worker {meeting.rank} of {meeting.size}")
            print(f"They meet at {meeting.address}, where worker 0 listens, and say where they are.")
        elif found.config is not None and found.config.cluster:
            place = task_context(found.config, chief_required=False)
            chief = ", which is the chief" if place.is_chief else ""
            print(f"This task: {place.task_type} {place.task_id}{chief}")
            for job, addresses in found.config.cluster.as_dict().items():
                print(f"  {job}: {addresses}")
        else:
            print("This task: the only one")
    except ClusterError as exc:
        parser.error(str(exc))
    print("Looked for, the first of which counts:")
    for what, find in FINDERS.items():
        try:
            there = "found" if find(os.environ) is not None else "not there, or for one process"
        except ClusterError as exc:
            there = f"not used, and wrong: {exc}"
        print(f"  {what}: {there}")
    return 0
