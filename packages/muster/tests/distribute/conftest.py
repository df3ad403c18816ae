"""Helpers that lie here are found by tests in folders below, and by the processes that these start."""

import os
from pathlib import Path

os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
)
