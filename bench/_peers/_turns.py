"""How a contestant talks with the bench: losses of the first steps, then a time for each turn.

Its command line is the name of the case and the steps of a turn. It writes a line of JSON once it has trained
``CHECK_STEPS`` steps on as many different batches, and one after every turn; a line on its input is a turn.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time

CHECK_STEPS = 50

case = importlib.import_module(f"bench.cases.{sys.argv[1]}")
steps = int(sys.argv[2])

# What the libraries print goes to stderr.
_answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def ready(losses, *packages):
    """Report the losses of the first steps, and the versions of the packages that computed them."""
    versions = {package: importlib.metadata.version(package) for package in ("numpy", *packages)}
    print(json.dumps({"losses": [float(loss) for loss in losses], "versions": versions}), file=_answers)


def next_turn():
    """Wait for a turn; False if there will be none."""
    return bool(sys.stdin.readline())


def turn_took(seconds):
    """Report the time of a turn."""
    print(json.dumps({"seconds": seconds}), file=_answers)


def serve(train):
    """Take turns until there are no more; ``train`` returns once its last step is done."""
    while next_turn():
        began = time.perf_counter()
        train()
        turn_took(time.perf_counter() - began)
