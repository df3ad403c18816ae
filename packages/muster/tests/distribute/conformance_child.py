"""One worker of a job that runs cases of the conformance suite. Run by test_conformance_multiprocess.py.

Arguments: the name of the job's cases; then JSON: report, where to write what came of them.
"""

import json
import sys
from pathlib import Path

from conformance import CASES, fitted
from conformance_loops import looped

from muster.distribute import MultiWorkerMirroredStrategy

if __name__ == "__main__":
    strategy = MultiWorkerMirroredStrategy()
    outcomes = {
        str(case): (fitted if case.way == "fit" else looped)(strategy, case) for case in CASES[sys.argv[1]]
    }
    Path(json.loads(sys.argv[2])["report"]).write_text(json.dumps(outcomes, default=float))
