"""Compare training a canned wide-and-deep classifier with TensorFlow's Estimator, in turn in one run.

The input, from a CSV file, counts. Both start with the same weights and read the same batches: the losses of
the first steps must agree. ``make bench-peers`` installs TensorFlow; without it, muster is measured alone.
"""

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.cases import adult
from bench.peers import AGREEMENT, CONTESTANTS, python_of, say, started, widest_gap

from bench import _results

# TensorFlow's comes first: muster starts from its checkpoint.
_ESTIMATORS = ("tensorflow", "muster")


def measure(folder: Path, alternations: int, steps: int) -> dict[str, Any]:
    """Check that the contestants compute equal losses, and time them in turn.

    Args:
        folder: A folder that is empty.
        alternations: The number of turns for each, after one that is not counted.
        steps: The number of steps in a turn.

    Returns:
        Values for JSON: the losses' agreement, milliseconds a step in each turn, and versions.

    Raises:
        RuntimeError: A contestant fails, or losses differ by more than AGREEMENT.
    """
    adult.write_rows(folder / "rows.csv")
    with ExitStack() as undo:
        running = {}
        for name in filter(python_of, _ESTIMATORS):
            say(f"{name} trains its first steps")
            running[name] = undo.enter_context(started(name, "adult", steps, "canned", folder))
        gap, where = widest_gap({name: each.losses for name, each in running.items()})
        if gap > AGREEMENT:
            raise RuntimeError(f"The losses differ by {gap:.2g}, more than {AGREEMENT}, at {where}.")
        times: dict[str, list[float]] = {name: [] for name in running}
        for turn in range(alternations + 1):
            say(f"turn {turn} of {alternations}" if turn else "warm-up")
            for name in running if turn % 2 else reversed(running):
                seconds = running[name].seconds_per_turn()
                if turn:
                    times[name].append(1e3 * seconds / steps)
        losses = running["muster"].losses
        return {
            "batch": adult.BATCH,
            "steps_per_turn": steps,
            "loss_gap": gap,
            "losses": [losses[0], losses[-1]],
            "ms_per_step": times,
            "contestants": {name: each.versions for name, each in running.items()},
        }


def main() -> int:
    """Print and write the times; return 1 if a contestant failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.canned", description=__doc__)
    parser.add_argument("--alternations", type=int, default=10, help="turns of each (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=adult.STEPS, help="of a turn (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="folder for JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = measure(Path(folder), args.alternations, args.steps)
        except RuntimeError as error:
            print(f"Failed. {error}")
            return 1
    times = figures["ms_per_step"]
    print(f"| {adult.BATCH} rows | ms a step, the median of {args.alternations} turns | the least |")
    print("|---|---|---|")
    for name, each in times.items():
        print(f"| {CONTESTANTS[name][0]} | {statistics.median(each):.2f} | {min(each):.2f} |")
    if "tensorflow" in times:
        ratios = sorted(a / b for a, b in zip(times["tensorflow"], times["muster"], strict=True))
        middle = statistics.median(ratios)
        print(f"\nmuster is {middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) times as fast; the bar is 2.")
    first, last = figures["losses"]
    gap = figures["loss_gap"]
    print(f"The losses, from {first:.3f} to {last:.3f} in the first steps, agree to {gap:.1g}.")
    _results.write("canned", figures, args.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
