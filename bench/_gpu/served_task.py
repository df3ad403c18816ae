"""Be the trainer or the parameter server of ``served.py``.

Arguments: ``full`` or ``small``; the folder of the model.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax
from bench._gpu._model import input_fn_of, model_fn_of
from bench._gpu.nets import net

from muster.estimator import Estimator, EvalSpec, RunConfig, SessionRunHook, TrainSpec, train_and_evaluate


class Clock(SessionRunHook):
    """Time the steps after the first ones, and read a few losses.

    Args:
        steps: The number of steps to time.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.taken, self.losses = steps, 0, []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.taken += 1
        if self.taken in (1, 1 + self.steps):
            self.losses.append(float(run_context.session.run("loss")))
            if self.taken > 1:
                self.seconds = time.perf_counter() - self.began
            self.began = time.perf_counter()


if __name__ == "__main__":
    size, model_dir = sys.argv[1:]
    chosen = net("cnn", size)
    clock = Clock(chosen.steps)
    config = RunConfig(model_dir, save_checkpoints_steps=10**9, save_summary_steps=None)
    input_fn = input_fn_of(chosen)
    train_and_evaluate(
        Estimator(model_fn_of(chosen), config=config),
        TrainSpec(input_fn, max_steps=1 + chosen.steps, hooks=[clock]),
        EvalSpec(input_fn, steps=1),
    )
    # To ask JAX for devices would start its platforms.
    used = sorted(jax._src.xla_bridge._backends)
    report: dict[str, Any] = {"jax_has_started": used}
    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "chief":
        report |= {
            "device": str(jax.devices()[0]),
            "losses": clock.losses,
            "steps_per_sec": round(chosen.steps / clock.seconds, 2),
        }
    Path(os.environ["MUSTER_BENCH_REPORT"]).write_text(json.dumps(report))
