"""Measure the all-reduce of 160 small gradients between two workers with a core each, packed and not.

A custom loop and ``fit`` use muster's connections; a loop with two virtual devices per worker uses XLA's
collectives. XLA combines the collectives of a program, but on CPUs still sends their arrays one by one.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import _results
from muster.program._replicas import packs

SCRIPT = Path(__file__).with_name("_many_variables_job.py")
ALTERNATIONS = 3
DEADLINE_SECS = 120


@dataclass(frozen=True)
class Contestant:
    """A way to all-reduce gradients.

    Attributes:
        how: ``loop`` or ``fit``.
        bytes_per_pack: As in CommunicationOptions; 0 for one pack, 1 for one pack per variable.
        alone: Whether packs are exchanged separately even if several are ready.
        devices: The number of virtual devices of each worker.
        steps: The number of steps that are timed.
        against: The name of the contestant to compare with.
    """

    how: str
    bytes_per_pack: int = 0
    alone: bool = False
    devices: int = 1
    steps: int = 200
    against: str = ""

    def run(self) -> dict[str, Any]:
        """Run the job, and return the report of worker 0."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "muster", "run", "--workers", "2"]
            if self.devices > 1:
                command += ["--devices-per-worker", str(self.devices)]
            together = "alone" if self.alone else "together"
            options = [self.how, str(self.bytes_per_pack), together, str(self.steps)]
            done = subprocess.run(
                [*command, SCRIPT, folder, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "KERAS_BACKEND": "jax"},
                timeout=DEADLINE_SECS,
            )
            if done.returncode:
                raise RuntimeError(done.stdout.decode()[-4000:])
            report: dict[str, Any] = json.loads(Path(folder, "0.json").read_text())
            return report


LINK, XLA = "loop, muster's connections, one pack", "loop, XLA, one pack"
CONTESTANTS = {
    LINK: Contestant("loop"),
    "loop, muster's connections, packs of 64 KiB": Contestant("loop", 65_536, alone=True, against=LINK),
    "loop, muster's connections, one a variable": Contestant("loop", 1, alone=True, against=LINK),
    XLA: Contestant("loop", devices=2, steps=40),
    "loop, XLA, one a variable": Contestant("loop", 1, devices=2, steps=40, against=XLA),
    "fit": Contestant("fit", against=LINK),
}


def main() -> dict[str, Any]:
    """Print and return the traffic and the time of a step, by contestant."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTANTS}
    for number in range(ALTERNATIONS):
        for name, contestant in CONTESTANTS.items():
            found[name].append(contestant.run())
            print(f"round {number + 1}: {name}: {1e3 * found[name][-1]['seconds']:.2f} ms", file=sys.stderr)
    print("### Two workers add the gradients of 160 small variables, and the loss\n")
    print("| | packs, by the contract | collectives a step | arrays | bytes | ms a step | times as long |")
    print("|---" * 7 + "|")
    figures: dict[str, Any] = {}
    for name, contestant in CONTESTANTS.items():
        first, each = found[name][0], [report["seconds"] for report in found[name]]
        by_contract = len(packs(first["sizes"][::-1], contestant.bytes_per_pack))
        ratio = ""
        if contestant.against:
            pairs = zip(found[name], found[contestant.against], strict=True)
            ratios = sorted(slow["seconds"] / fast["seconds"] for slow, fast in pairs)
            ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        figures[name] = {
            "packs_by_contract": by_contract,
            **{what: first[what] for what in ("collectives", "arrays", "bytes")},
            "ms": [1e3 * seconds for seconds in each],
        }
        print(
            f"| {name} | {by_contract} | {first['collectives']:g} | {first['arrays']:g} | "
            f"{first['bytes']:,.0f} | {1e3 * statistics.median(each):.2f} | {ratio} |"
        )
    print(
        "\nThe loss is one array more of a loop, and one collective more where every array has its own. "
        "`fit` is held against the first loop."
    )
    return figures


if __name__ == "__main__":
    _results.write("many_variables", main())
