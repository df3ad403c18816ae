"""Talk to the bench as a contestant: report the losses of the first steps, then the time of each turn.

A contestant's arguments are the name of the case and the number of steps in a turn. It writes a line of JSON
once it has trained ``CHECK_STEPS`` steps on as many batches, then reads a line for each turn and answers it.
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
    """Wait for a turn; return False if there are no more."""
    return bool(sys.stdin.readline())


def turn_took(seconds):
    """Report the time of a turn."""
    print(json.dumps({"seconds": seconds}), file=_answers)


def serve(train):
    """Take turns until there are no more; ``train`` must return only when its last step is done."""
    while next_turn():
        began = time.perf_counter()
        train()
        turn_took(time.perf_counter() - began)
