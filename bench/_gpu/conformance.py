"""Run the conformance suite on the card: every way to train comes to what one device comes to.

Where a strategy of the suite has several devices it gets those that there are. The suite compares float32, so
products have its full precision here.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable

from bench._gpu._part import Part, this_part
from bench.gpu import ROOT, TESTS

SUITE = TESTS / "distribute" / "test_conformance.py"
# Of a rehearsal: the case that compiles least.
SMALL = "training and default and native"
# pytest's own time at its end.
_REST_SECS = 8.0
_OUTCOME = re.compile(r"^(?:\[\S+\] \[ *\d+%\] )?(PASSED|FAILED|ERROR|SKIPPED) (\S+::.+?)(?: +\[ *\d+%\])?$")
_OUTCOME_LAST = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED)(?: \(.*\))?(?: +\[ *\d+%\])?$")


def outcomes(lines: Iterable[str]) -> dict[str, str]:
    """Return the outcome of each test, by its name, from the lines that ``pytest -v`` prints.

    Later outcomes of a test, of its end, replace those that say that it passed.
    """
    found: dict[str, str] = {}
    for line in lines:
        if match := _OUTCOME.match(line.strip()):
            outcome, name = match.groups()
        elif match := _OUTCOME_LAST.match(line.strip()):
            name, outcome = match.groups()
        else:
            continue
        name = name.partition("::")[2].split(" - ")[0].strip()
        if found.get(name, "PASSED") == "PASSED":
            found[name] = outcome
    return found


def run(part: Part) -> None:
    """Report how many tests passed, and which did not."""
    environment = dict(os.environ)
    command = [sys.executable, "-m", "pytest", str(SUITE), "-v", "-p", "no:cacheprovider"]
    if part.small:
        command += ["-k", SMALL]
    else:
        # Compiling takes most of the time, on the host.
        command += ["--numprocesses", str(min(6, os.cpu_count() or 1))]
    if os.environ["JAX_PLATFORMS"] != "cpu":
        environment |= {"MUSTER_TEST_PLATFORM": "gpu", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
    log = part.folder / "conformance.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            code = process.wait(part.ends_at - _REST_SECS - time.monotonic())
        except subprocess.TimeoutExpired:
            process.terminate()
            code = None
    lines = log.read_text(errors="replace").splitlines()
    found = outcomes(lines)
    by_outcome = {name: sum(each == name for each in found.values()) for name in sorted(set(found.values()))}
    part.note(tests=by_outcome, skipped=[name for name, each in found.items() if each == "SKIPPED"])
    for name, outcome in found.items():
        if outcome in ("FAILED", "ERROR"):
            why = next((line for line in lines if line.startswith(outcome) and name in line), "")
            part.fail(f"{outcome} {name}{why.partition(name)[2]}")
    if code is None:
        part.fail(f"The suite had not ended when its time was over; of its tests, {by_outcome} were done.")
    elif code or not found:
        part.fail("\n".join([f"pytest ended with code {code}. Its last lines:", *lines[-25:]]))


if __name__ == "__main__":
    this = this_part()
    run(this)
    this.end()
