"""One worker of a custom training loop. Run by test_custom_loops_multiprocess.py.

Argument: JSON: report (where to write losses, metric and weights), examples.
"""

import json
import sys
from pathlib import Path

import test_custom_loops

from muster.distribute import MultiWorkerMirroredStrategy

if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    strategy = MultiWorkerMirroredStrategy()
    losses, accuracy, weights = test_custom_loops.train(strategy, "adam", options["examples"])
    report = {"losses": losses, "accuracy": accuracy, "weights": [w.tolist() for w in weights]}
    Path(options["report"]).write_text(json.dumps(report))
