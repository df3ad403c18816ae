"""A task of a job that trains canned Estimators. Run by estimator/test_canned_multiprocess.py.

Argument: JSON: folder (of models), names (of models, as in canned_models.py), for workers told (a file for
the losses of each), and in a job with parameter servers part (0 or 1: which rows of each batch it reads).
"""

import json
import logging
import sys
from functools import partial
from pathlib import Path

from canned_models import BATCH, STEPS, batches, made, trained
from muster.distribute import FixedShardsPartitioner, MultiWorkerMirroredStrategy, ParameterServerStrategyV1
from muster.estimator import EvalSpec, TrainSpec, train_and_evaluate


def part_of(name, part):
    return batches(name, BATCH // 2).shard(2, part)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = Path(options["folder"])
    if "told" not in options:
        (name,) = options["names"]
        strategy = ParameterServerStrategyV1(variable_partitioner=FixedShardsPartitioner(2))
        estimator = made(name, folder / name, train_distribute=strategy, max_staleness=0)
        train_and_evaluate(
            estimator,
            TrainSpec(partial(part_of, name, options.get("part", 0)), max_steps=STEPS),
            EvalSpec(partial(batches, name), steps=2, start_delay_secs=0, throttle_secs=0),
        )
        return
    strategy, losses = MultiWorkerMirroredStrategy(), {}
    for name in options["names"]:
        input_fn = partial(part_of, name, strategy.input_context.input_pipeline_id)
        losses[name] = trained(name, folder / name, input_fn, train_distribute=strategy)[0]
    Path(options["told"]).write_text(json.dumps(losses))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
