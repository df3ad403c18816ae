"""``muster plan``: its options, and the table that it prints."""

import argparse
import dataclasses
import json
import re
import sys
from typing import Any

from muster._commands import add_command
from muster.launch._job_commands import NoSuchJobError, chosen_job
from muster.launch.scaling._measured_job import MeasuredJob, NothingMeasuredError
from muster.launch.scaling._predictions import SpeedPrediction, error_of, predictions, saturation

_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_MOST_TASKS = 100_000


def add_plan_command(commands: Any) -> None:
    """Add ``plan`` to the commands of a parser; see ``add_run_command``."""
    parser = add_command(commands, "plan", {"counts": _counts, "speed": _bytes_per_sec})
    parser.set_defaults(handler=_plan)


def _counts(text: str) -> list[int]:
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > _MOST_TASKS:
        raise argparse.ArgumentTypeError(
            f"must be numbers from 1 to {_MOST_TASKS} with commas between, such as 1,2,4; given: {text!r}"
        )
    return counts


def _bytes_per_sec(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt])bit(?:/s)?", text.strip().lower())
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"must be a speed such as 10gbit or 800mbit, given: {text!r}")
    return float(found[1]) * _UNITS[found[2]] / 8


def _plan(args: argparse.Namespace) -> int:
    try:
        record = chosen_job(args.job)
        job = MeasuredJob.of(record)
        if args.ps and not job.servers:
            raise NothingMeasuredError(
                f"job {record.name} had no parameter servers, so that it says nothing of them; leave --ps out"
            )
        others = [(each, MeasuredJob.of(chosen_job(each))) for each in args.against]
        errors = [(name, other, error_of(job, other)) for name, other in others]
    except (NoSuchJobError, NothingMeasuredError, ValueError) as exc:
        print(f"muster plan: {exc}", file=sys.stderr)
        return 1
    servers = args.ps or [job.servers]
    found = predictions(job, args.workers, servers, args.network)
    if args.json:
        known = {
            "measured": dataclasses.asdict(job),
            "predicted": [dataclasses.asdict(each) for each in found],
            "against": [
                {"job": name, "error": error, **dataclasses.asdict(other)} for name, other, error in errors
            ],
        }
        print(json.dumps(known))
        return 0
    print(_what_was_measured(record.name, job))
    print(_table(found, bool(job.servers)))
    for count in servers if job.servers else ():
        most, workers = saturation(job, count, args.network)
        print(f"{_counted(count, 'server')}: at most {most:.4g} steps/s, with {workers:.0f} or more workers.")
    for name, other, error in errors:
        beside = f" beside {_counted(other.servers, 'parameter server')}" if other.servers else ""
        print(
            f"{name}, {_counted(other.workers, 'worker')}{beside}: {other.steps_per_sec:.4g} steps/s; "
            f"the prediction is {error:+.1%} off."
        )
    return 0


def _what_was_measured(name: str, job: MeasuredJob) -> str:
    def ms(secs: float) -> str:
        return f"{1e3 * secs:.3g} ms"

    beside = f" beside {_counted(job.servers, 'parameter server')}" if job.servers else ""
    parts = [f"computing {ms(job.compute)}", f"input {ms(job.input)}", f"exchange {ms(job.exchange)}"]
    parts += [f"idle {ms(job.idle)}"] if job.idle else []
    parts += [f"of a server {ms(job.serve)}"] if job.servers else []
    return (
        f"Job {name}, {_counted(job.workers, 'worker')}{beside}: {job.steps_per_sec:.4g} steps/s. A step: "
        f"{', '.join(parts)}, {job.nbytes / 1e6:.3g} MB, {job.spread:.0%} spread."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table(found: list[SpeedPrediction], served: bool) -> str:
    headers = [
        "workers",
        *(["ps"] if served else []),
        "steps/s",
        "batches/s",
        "efficiency",
        "most time goes to",
    ]
    rows = [
        [
            str(each.workers),
            *([str(each.servers)] if served else []),
            f"{each.steps_per_sec:.4g}",
            f"{each.batches_per_sec:.4g}",
            f"{each.efficiency:.0%}",
            each.limit,
        ]
        for each in found
    ]
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)) + f"  {row[-1]}"
        for row in [headers, *rows]
    ]
    return "\n".join(lines)
