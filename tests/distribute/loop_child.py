"""One worker of a custom training loop. Run by test_custom_loops_multiprocess.py.

Argument: JSON: report (where to write losses, metric and weights, and what was counted), examples.
"""

import json
import sys
from pathlib import Path

import test_custom_loops

from muster import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy, function


def count(strategy, examples):
    """How many examples this replica has seen, and all of them, drawn inside of a function."""
    with strategy.scope():
        seen = keras.Variable(0, dtype="int32", aggregation="sum", synchronization="on_read", trainable=False)

    @function
    def step(iterator):
        strategy.run(lambda x: seen.assign_add(keras.ops.size(x)), (next(iterator),))

    data = Dataset.range(examples).batch(test_custom_loops.BATCH)
    iterator = iter(strategy.experimental_distribute_dataset(data))
    try:
        while True:
            step(iterator)
    except StopIteration:
        return int(strategy.experimental_local_results(seen)[0]), int(seen)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    strategy = MultiWorkerMirroredStrategy()
    losses, accuracy, weights = test_custom_loops.train(strategy, "adam", options["examples"])
    own, total = count(strategy, options["examples"])
    weights = [weight.tolist() for weight in weights]
    report = {"losses": losses, "accuracy": accuracy, "weights": weights, "own": own, "total": total}
    Path(options["report"]).write_text(json.dumps(report))
