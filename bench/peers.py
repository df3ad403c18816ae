"""Training steps a second of the guide's model: muster beside its peers, in turn, in one sitting.

Keras 3 is always there. The others live in virtual environments of their own, and are named by variables:

    python3.11 -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu==2.15.1
    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    MUSTER_BENCH_TENSORFLOW=/tmp/tf/bin/python MUSTER_BENCH_TORCH=/tmp/torch/bin/python python -m bench peers
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = 200
ALTERNATIONS = 5
PEERS = Path(__file__).parent / "_peers"


def steps_per_second(python: str, script: str) -> float:
    done = subprocess.run(
        [python, PEERS / script, str(STEPS)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return float(done.stdout.split()[-1])


def main() -> dict[str, float]:
    """Print and return muster's steps a second divided by each peer's, as medians of alternations."""
    contestants = {
        "muster, Estimator": (sys.executable, "estimator.py"),
        "Keras 3 on JAX, fit": (sys.executable, "keras_fit.py"),
    }
    for name, variable, script in (
        ("TensorFlow, Estimator", "MUSTER_BENCH_TENSORFLOW", "estimator.py"),
        ("PyTorch, a loop", "MUSTER_BENCH_TORCH", "torch_loop.py"),
    ):
        if python := os.environ.get(variable):
            contestants[name] = (python, script)
        else:
            print(f"{name} is left out: {variable} does not name its Python; bench/peers.py says how.\n")
    rounds = [
        {name: steps_per_second(*run) for name, run in contestants.items()} for _ in range(ALTERNATIONS)
    ]
    ours, *others = contestants
    print(f"| | steps/s, the median of {ALTERNATIONS} | muster is so many times as fast |\n|---|---|---|")
    print(f"| {ours} | {statistics.median(each[ours] for each in rounds):.1f} | |")
    ratios = {}
    for name in others:
        each_round = sorted(each[ours] / each[name] for each in rounds)
        ratios[name] = statistics.median(each_round)
        speed = statistics.median(each[name] for each in rounds)
        print(f"| {name} | {speed:.1f} | {ratios[name]:.2f} ({each_round[0]:.2f} to {each_round[-1]:.2f}) |")
    return ratios


if __name__ == "__main__":
    main()
