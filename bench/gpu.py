"""Measure and check muster on one NVIDIA card, in under ten minutes: ``python -m bench gpu``.

Set-up, in the repository's folder, with a Python of 3.11 or newer and the card's driver:

    python -m pip install --editable './packages/muster[gpu,serve]' --editable ./packages/muster-tensorflow
    python -m pip install --group test
    python -m bench gpu

To have the time of the set-up count, too, give the parts what is left of ten minutes, in one shell:

    SECONDS=0; python -m pip install ... && python -m bench gpu --budget $((590 - SECONDS))

This installs ``muster-train[gpu,serve]`` and ``muster-tensorflow``. If JAX has CUDA already, omit the extra
``gpu``. PyTorch takes part where this Python has it, or the one that MUSTER_BENCH_TORCH names.

Each part is a process with a deadline, so that a crash or a hang costs no other part; figures and failures of
all are in one file, ``bench/results/gpu.json`` by default, which is written after each part. The exit code is
1 if any part failed or had no time left. ``--rehearse`` tries all of it on the CPU in small sizes; its
figures mean nothing, and are kept only where ``--output`` says.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import _results

ROOT = _results.RESULTS.parents[1]
TESTS = ROOT / "packages" / "muster" / "tests"

BUDGET_SECS = 540.0
# A part with less time than this is not begun.
LEAST_SECS = 15.0
TAIL_LINES = 40
# So many parts of a rehearsal, which measures nothing, run at a time.
TOGETHER = 2
OK, FAILED, NOT_RUN = "ok", "failed", "not run"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartSpec:
    """A part of the measurement.

    Attributes:
        name: Its name.
        program: The module of ``bench._gpu`` that it runs.
        seconds: How long it may take.
        what: What it does, for the table.
    """

    name: str
    program: str
    seconds: float
    what: str


# In order of importance, should the time run out. Few should come near their deadlines, which add up to more.
PARTS = (
    PartSpec(name="device", program="device", seconds=60, what="the card that JAX computes on"),
    PartSpec(name="cnn", program="cnn", seconds=100, what="the guide's CNN under an Estimator"),
    PartSpec(name="resnet", program="bfloat16", seconds=120, what="a residual network in bfloat16"),
    PartSpec(name="transformer", program="bfloat16", seconds=120, what="a transformer in bfloat16"),
    PartSpec(name="mirrored", program="mirrored", seconds=75, what="fit and an Estimator, mirrored"),
    PartSpec(name="two_workers", program="two_workers", seconds=75, what="two workers on one card"),
    PartSpec(name="served", program="served", seconds=75, what="a trainer beside a parameter server"),
    PartSpec(name="exported", program="exported", seconds=90, what="export, load and serve"),
    PartSpec(name="conformance", program="conformance", seconds=150, what="the conformance suite"),
)


def environment(platform: str, compiled: Path) -> dict[str, str]:
    """Return the environment of parts.

    Args:
        platform: ``cuda``, or ``cpu`` for a rehearsal.
        compiled: A folder in which parts keep what they compile, for each other.
    """
    return os.environ | {
        # Named, JAX raises an error where there is no CUDA, in place of computing on the CPU.
        "JAX_PLATFORMS": "cpu" if platform == "cpu" else "cuda,cpu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_COMPILATION_CACHE_DIR": str(compiled),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONUNBUFFERED": "1",
    }


def run_part(
    spec: PartSpec, command: Sequence[str], folder: Path, seconds: float, variables: Mapping[str, str]
) -> dict[str, Any]:
    """Run a part to its end or its deadline, with all that it starts, and return what is kept of it.

    Args:
        spec: The part.
        command: What runs it.
        folder: The folder of the run; the part's report is ``NAME.json`` in it.
        seconds: How long it may take.
        variables: Its environment.
    """
    log = folder / f"{spec.name}.log"
    began = time.monotonic()
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=output, stderr=output, start_new_session=True
        ) as process,
    ):
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # Also what it has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    report = folder / f"{spec.name}.json"
    found = json.loads(report.read_text()) if report.exists() else {"figures": {}, "failures": []}
    if code is None:
        found["failures"].append(f"It did not end within {seconds:.0f} s, and was killed.")
    elif code and not found["failures"]:
        found["failures"].append(f"It ended with code {code}.")
    kept = {
        "outcome": FAILED if found["failures"] or code else OK,
        "seconds": round(time.monotonic() - began, 1),
        "exit_code": code,
        **found,
    }
    if kept["outcome"] == FAILED:
        kept["last_lines"] = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    return kept


class Run:
    """A run of parts, with what is kept of it.

    Args:
        parts: The parts, in order.
        budget: How many seconds they may take together.
        keep: Called with the records of all parts so far, after each.
    """

    def __init__(
        self, parts: Sequence[PartSpec], budget: float, keep: Callable[[dict[str, Any]], None]
    ) -> None:
        self.parts, self.keep = parts, keep
        self.until = time.monotonic() + budget
        self.records: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, run: Callable[[PartSpec, float], dict[str, Any]], together: int = 1) -> bool:
        """Run the parts, and return whether all went well.

        The first is run alone: where it fails, the card is not usable, and no other is begun.

        Args:
            run: Runs a part for at most so many seconds, and returns its record.
            together: How many of the others to run at a time.
        """
        first, *others = self.parts

        def begin(spec: PartSpec) -> None:
            left = self.until - time.monotonic()
            if self.records and self.records[first.name]["outcome"] != OK:
                record = {"outcome": NOT_RUN, "failures": [f"not run: the part {first.name} failed"]}
            elif left < LEAST_SECS:
                record = {"outcome": NOT_RUN, "failures": ["not run: no time left"]}
            else:
                record = run(spec, min(spec.seconds, left))
            with self._lock:
                self.records[spec.name] = record
                self.keep(self.records)

        begin(first)
        if together == 1:
            for spec in others:
                begin(spec)
        else:
            with ThreadPoolExecutor(together) as pool:
                list(pool.map(begin, others))
        return all(record["outcome"] == OK for record in self.records.values())


def flat(figures: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Return figures as names and texts, those of groups with the names of their groups."""
    found = []
    for name, value in figures.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{above}{name}: ")
        else:
            found.append((above + name, str(value)))
    return found


def table(parts: Sequence[PartSpec], records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the outcomes and figures as Markdown."""
    lines = ["| part | outcome | seconds |", "|---|---|---|"]
    for spec in parts:
        record = records[spec.name]
        lines.append(f"| {spec.name}: {spec.what} | {record['outcome']} | {record.get('seconds', '')} |")
    lines += ["", "| part | figure | value |", "|---|---|---|"]
    for spec in parts:
        for name, text in flat(records[spec.name].get("figures", {})):
            lines.append(f"| {spec.name} | {name} | {text} |")
    for spec in parts:
        for why in records[spec.name]["failures"]:
            lines += ["", f"{spec.name}: {why}"]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m bench gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [spec.name for spec in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, help="(default: all)")
    parser.add_argument(
        "--budget", type=float, default=BUDGET_SECS, help="seconds of all parts (default: %(default)s)"
    )
    parser.add_argument("--platform", choices=("cuda", "cpu"), help="(default: cuda); cpu rehearses")
    parser.add_argument(
        "--rehearse", action="store_true", help="small sizes, on the CPU unless told otherwise"
    )
    parser.add_argument(
        "--output", type=Path, help="the file (default: bench/results/gpu.json; rehearsals: none is kept)"
    )
    found = parser.parse_args()
    found.platform = found.platform or ("cpu" if found.rehearse else "cuda")
    found.rehearse |= found.platform == "cpu"
    return found


def main() -> int:
    """Run the parts, print a table and write the file; return 1 if anything failed."""
    options = arguments()
    # Parts that run are ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # Where JAX stands is told by the first part, which is always run.
    parts = [spec for spec in PARTS if spec is PARTS[0] or spec.name in options.parts]
    size = "small" if options.rehearse else "full"
    with tempfile.TemporaryDirectory(prefix="muster-bench-gpu-") as name:
        folder = Path(name)
        output = options.output or (folder if options.rehearse else _results.RESULTS) / "gpu.json"
        variables = environment(options.platform, folder / "compiled")
        began = time.monotonic()

        def keep(records: Mapping[str, Any]) -> None:
            ended = {name: record["outcome"] for name, record in records.items()}
            print(f"{time.monotonic() - began:.0f} s: {ended}", file=sys.stderr, flush=True)
            figures = {
                "platform": options.platform,
                "size": size,
                "seconds": round(time.monotonic() - began, 1),
                "budget_seconds": options.budget,
                "parts": {spec.name: records[spec.name] for spec in parts if spec.name in records},
                "not_yet_run": [spec.name for spec in parts if spec.name not in records],
            }
            _results.write_to(output, "gpu", figures)

        def run(spec: PartSpec, seconds: float) -> dict[str, Any]:
            seconds = options.budget if options.rehearse else seconds
            command = [sys.executable, "-m", f"bench._gpu.{spec.program}"]
            command += [spec.name, str(folder), size, f"{seconds:.1f}"]
            return run_part(spec, command, folder, seconds, variables)

        going = Run(parts, options.budget, keep)
        well = going(run, TOGETHER if options.rehearse else 1)
        print(table(parts, going.records))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
