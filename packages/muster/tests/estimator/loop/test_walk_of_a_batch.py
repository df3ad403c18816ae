"""A batch goes from its dataset into XLA through few files, which docs/architecture.md names."""

import sys
from pathlib import Path

import numpy as np
from linear import FEATURES, estimator, train_input

import muster
from muster.estimator import SessionRunHook

ROOT = Path(muster.__file__).parent
WALK = {
    "data/_iterator.py",
    "estimator/loop/_batches.py",
    "estimator/loop/_host_part.py",
    "distribute/input/_own_input.py",
    "estimator/loop/_run_loop.py",
    "estimator/loop/_requested_outputs.py",
    "distribute/engine/_compiled.py",
}
# Looks at numbers, and passes nothing on.
CHECKS = {"distribute/engine/_limits.py", "estimator/hooks/_nan.py"}
SHAPE = (8, FEATURES.shape[1])


def holds(value, depth=0):
    """Whether a value is the features of a batch, or has them in it."""
    if isinstance(value, tuple | list | dict) and depth < 4:
        return any(holds(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, np.ndarray) and value.shape == SHAPE


class Follow(SessionRunHook):
    """Notes, in the third run, which modules have a batch in their hands."""

    def __init__(self):
        self.runs, self.seen = 0, set()

    def before_run(self, run_context):
        self.runs += 1
        if self.runs == 3:
            self.before = sys.getprofile()
            sys.setprofile(self.note)
        elif self.runs == 4:
            sys.setprofile(self.before)

    def note(self, frame, event, returned):
        file = Path(frame.f_code.co_filename)
        if event == "return" and file.is_relative_to(ROOT) and holds([returned, *frame.f_locals.values()]):
            self.seen.add(file.relative_to(ROOT).as_posix())


def test_a_batch_goes_through_few_files(tmp_path):
    follow = Follow()
    estimator(tmp_path).train(train_input, hooks=[follow], steps=5)
    passed = {file for file in follow.seen if not file.startswith("data/pipeline/")}
    assert passed - CHECKS == WALK
    architecture = (ROOT.parents[3] / "docs/architecture.md").read_text()
    walk = architecture.partition("A batch goes from an `input_fn`")[2].partition("**Feature")[0]
    assert [file for file in WALK if f"`{file}`" not in walk] == []
