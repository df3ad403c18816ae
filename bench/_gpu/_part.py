"""Share what the parts of ``bench.gpu`` have in common: their arguments, their report, and turns.

A part is a program, ``python -m bench._gpu.PROGRAM NAME FOLDER SIZE SECONDS``: the part's name; the folder of
the run, in which parts leave what others use; ``full`` or ``small``; and how long it may take. It writes what
it finds to ``NAME.json`` in that folder, at once, so that figures are kept if it crashes or is killed, and
ends with 1 if anything failed.
"""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

OURS = "muster"


class Part:
    """The arguments and the report of a part.

    Args:
        arguments: Those of the command line.

    Attributes:
        name: The name of the part.
        folder: The folder of the run.
        size: ``full``, or ``small`` for a rehearsal, which measures nothing.
        small: Whether this is a rehearsal.
        ends_at: When the part is killed, by time.monotonic.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.name, folder, self.size, seconds = arguments
        self.folder, self.small = Path(folder), self.size == "small"
        self.ends_at = time.monotonic() + float(seconds)
        self._report = self.folder / f"{self.name}.json"
        self._found: dict[str, Any] = {"figures": {}, "failures": []}

    def note(self, **figures: Any) -> None:
        """Keep figures: values that JSON can hold, which are printed with their names."""
        self._found["figures"] |= figures
        self._write()

    def fail(self, why: str) -> None:
        """Keep a failure, and go on."""
        self._found["failures"].append(why)
        print(why, file=sys.stderr, flush=True)
        self._write()

    def end(self) -> None:
        """End the program, with 1 if anything failed."""
        sys.exit(1 if self._found["failures"] else 0)

    def _write(self) -> None:
        written = self._report.with_suffix(".tmp")
        written.write_text(json.dumps(self._found))
        written.rename(self._report)


def this_part() -> Part:
    """Return the part that this program is."""
    return Part(sys.argv[1:])


def alternate(
    contestants: Mapping[str, Callable[[], float]], turns: int, until: float
) -> dict[str, list[float]]:
    """Let contestants take turns, in the other order at every round, and return the seconds of each turn.

    Args:
        contestants: Functions that train a turn and return its seconds.
        turns: The number of rounds, after one that is not counted.
        until: When no further round begins, by time.monotonic.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        if turn > 1 and time.monotonic() > until:
            break
        for name in contestants if turn % 2 else reversed(list(contestants)):
            took = contestants[name]()
            if turn:
                seconds[name].append(took)
    return seconds


def speeds(seconds: Mapping[str, Sequence[float]], steps: int, examples: int) -> dict[str, Any]:
    """Return figures of turns.

    Args:
        seconds: The seconds of each turn, by contestant; those of muster by ``OURS``. One with a turn of NaN
            has failed, and is left out.
        steps: The number of steps in a turn.
        examples: The number of examples in a step.

    Returns:
        Milliseconds a step, steps and examples a second, and how many times as fast as each other contestant
        muster is: the median of the rounds, the lowest and the highest.
    """
    seconds = {name: each for name, each in seconds.items() if not any(map(math.isnan, each))}
    step = {name: statistics.median(each) / steps for name, each in seconds.items()}
    figures: dict[str, Any] = {
        "ms_per_step": {name: round(1e3 * each, 4) for name, each in step.items()},
        "steps_per_sec": {name: round(1 / each, 2) for name, each in step.items()},
        "examples_per_sec": {name: round(examples / each, 1) for name, each in step.items()},
    }
    for name, each in seconds.items():
        if name != OURS:
            ratios = sorted(theirs / ours for theirs, ours in zip(each, seconds[OURS], strict=True))
            found = [statistics.median(ratios), ratios[0], ratios[-1]]
            figures[f"times_as_fast_as_{name}"] = [round(ratio, 3) for ratio in found]
    return figures
