"""Counts, under a strategy, until it is told to end; started again, it goes on.

Argument: JSON: strategy; directory; steps, the number of run calls to end after (null for none), counted from
where it starts; report, where to write where it started and ended; reached, a file to make at the fifth call.
"""

import json
import sys
from pathlib import Path

import muster_tensorflow as tf

options = json.loads(sys.argv[1])
strategy = {
    "default": tf.distribute.get_strategy,
    "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "workers": tf.distribute.MultiWorkerMirroredStrategy,
}[options["strategy"]]()

with strategy.scope():
    counter = tf.Variable(0.0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
checkpoint = tf.train.Checkpoint(counter=counter)
resolver = getattr(strategy, "cluster_resolver", None)
handler = tf.distribute.experimental.PreemptionCheckpointHandler(resolver, checkpoint, options["directory"])


@tf.function
def step():
    strategy.run(lambda: counter.assign_add(1.0))


start = handler.total_run_calls
# The chief's value, wherever it was restored.
strategy.workers.barrier("start")
while options["steps"] is None or handler.total_run_calls < start + options["steps"]:
    handler.run(step)
    if handler.total_run_calls == 5:
        Path(options["reached"]).touch()
report = {"start": start, "calls": handler.total_run_calls, "counter": float(counter.numpy())}
Path(options["report"]).write_text(json.dumps(report))
