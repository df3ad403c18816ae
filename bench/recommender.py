"""Compare where the table of a recommender lies: on two parameter servers, or whole in each of two workers.

The model is that of ``examples/recommender.py``. With servers a coordinator hands out steps, and each
worker makes those that it gets; with MultiWorkerMirroredStrategy both make each step together, by the same
optimizer of Keras, which changes the whole table, and ("sparse") by that of `tf.keras.optimizers.legacy`,
which changes those rows alone that were looked up. What counts are the batches a second of both workers,
all of the same size.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import _results

SCRIPT = Path(__file__).parent / "_recommender_job.py"
JOBS = {
    "served": ["--chief", "--workers", "2", "--ps", "2"],
    "mirrored": ["--workers", "2"],
    "sparse": ["--workers", "2"],
}
DEADLINE_SECS = 560


def measured(kind: str, rows: int, steps: int) -> tuple[float, float]:
    """Run a job, and return its batches a second and the most memory that a worker took, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "muster", "run", *JOBS[kind], SCRIPT, kind, str(rows), str(steps), folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_SECS,
        )
        if done.returncode:
            raise RuntimeError(done.stdout.decode()[-4000:])
        seconds = json.loads(Path(folder, "seconds.json").read_text())
        memory = [json.loads(Path(folder, f"worker {number}.json").read_text()) for number in (0, 1)]
    return steps / seconds, max(memory)


def main(arguments: list[str] | None = None) -> None:
    """Take turns, and print and write the medians."""
    parser = argparse.ArgumentParser(prog="python -m bench.recommender", description=__doc__)
    parser.add_argument("--rows", type=int, default=10**6, help="of the table that both have")
    parser.add_argument("--large-rows", type=int, default=10**7, help="of the table that servers alone have")
    parser.add_argument("--steps", type=int, default=400, help="batches that are timed")
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--results", type=Path, default=_results.RESULTS, help="the folder for results")
    args = parser.parse_args(arguments)

    contestants = [(kind, args.rows) for kind in JOBS] + [("served", args.large_rows)]
    found: dict[tuple[str, int], list[tuple[float, float]]] = {each: [] for each in contestants}
    for alternation in range(args.alternations):
        for kind, rows in contestants:
            steps = args.steps if kind != "mirrored" else max(2, args.steps // 10)  # each takes long
            found[kind, rows].append(each := measured(kind, rows, steps))
            print(f"round {alternation + 1}: {kind}, {rows:,} rows: {each[0]:.1f} batches/s", file=sys.stderr)
    print("| table | rows | batches/s of both workers | memory of a worker, MB |\n|---|---|---|---|")
    figures = []
    for (kind, rows), each in found.items():
        speeds, memory = zip(*each, strict=True)
        speed, most = statistics.median(speeds), max(memory)
        figures.append({"table": kind, "rows": rows, "batches_s": speed, "worker_mb": most})
        print(f"| {kind} | {rows:,} | {speed:.1f} ({min(speeds):.1f} to {max(speeds):.1f}) | {most:,.0f} |")
    ratios = {}
    for kind in ("mirrored", "sparse"):
        pairs = zip(found["served", args.rows], found[kind, args.rows], strict=True)
        each = [served / other for (served, _), (other, _) in pairs]
        ratios[kind] = statistics.median(each)
        print(
            f"\nServers make {ratios[kind]:.2f} ({min(each):.2f} to {max(each):.2f}) times as many as {kind}."
        )
    _results.write("recommender", {"figures": figures, "ratios": ratios}, args.results)


if __name__ == "__main__":
    main()
