"""One worker of a job that trains a model of same_numbers_cases.py.

Argument: JSON: name, the model; report, where to write what came of it.
"""

import json
import sys
from pathlib import Path

from same_numbers_cases import outcome

from muster.distribute import MultiWorkerMirroredStrategy

if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    report = outcome(MultiWorkerMirroredStrategy(), options["name"])
    Path(options["report"]).write_text(json.dumps(report))
