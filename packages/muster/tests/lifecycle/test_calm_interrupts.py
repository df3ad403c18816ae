"""Ctrl-C before and between trainings: a line says what has ended, and there is no traceback."""

import signal

import pytest

from terminals import OnTerminal

pytestmark = pytest.mark.processes

IMPORT = """
import signal
import muster
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 0.2)
from muster import keras
print("goes on")
"""
PROGRAM = """
import signal, sys
import numpy as np
from muster import get_or_create_global_step, keras, minimize
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, SessionRunHook
from muster.summary import EventFileWriter

def model_fn(features, labels, mode):
    prediction = keras.layers.Dense(1)(features)[:, 0]
    loss = keras.ops.mean(prediction**2)
    train_op = minimize(keras.optimizers.SGD(0.1), loss, get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op, predictions=prediction)

def input_fn():
    if where in ("input", "evaluation's input"):
        signal.raise_signal(signal.SIGINT)
    data = np.ones((8, 2), "float32")
    return Dataset.from_tensor_slices((data, data[:, 0])).batch(4)

class Interrupts(SessionRunHook):
    def after_run(self, run_context, run_values):
        signal.raise_signal(signal.SIGINT)

where, folder = sys.argv[1:]
estimator = Estimator(model_fn, folder)
if where == "the last file":
    close = EventFileWriter.close

    def interrupted_close(self):
        close(self)
        signal.raise_signal(signal.SIGINT)

    EventFileWriter.close = interrupted_close
match where:
    case "input" | "the last file":
        estimator.train(input_fn, steps=1)
    case "evaluation" | "evaluation's input":
        estimator.evaluate(input_fn, hooks=[Interrupts()])
    case "prediction":
        list(estimator.predict(input_fn, hooks=[Interrupts()]))
"""


def end(*arguments):
    with OnTerminal(["-c", *arguments]) as program:
        assert program.end() == -signal.SIGINT, program.written
        return program.lines()


def test_the_import_of_keras():
    assert end(IMPORT) == ["Interrupted while Keras and JAX were imported: nothing had begun.", ""]


def test_the_import_of_keras_by_a_file_is_told_once(tmp_path):
    (tmp_path / "imports.py").write_text(IMPORT)
    with OnTerminal([str(tmp_path / "imports.py")]) as program:
        assert program.end() == -signal.SIGINT, program.written
        assert program.lines() == ["Interrupted while Keras and JAX were imported: nothing had begun.", ""]


@pytest.mark.parametrize("way", ["{}", "-m interrupted"])
def test_any_import_of_the_program(way, tmp_path, monkeypatch):
    (tmp_path / "interrupted.py").write_text("import muster.estimator\nfrom slow import (\n    name\n)\n")
    (tmp_path / "slow.py").write_text("import os, signal\n\nos.kill(os.getpid(), signal.SIGINT)\nname = 1\n")
    monkeypatch.chdir(tmp_path)
    arguments = way.format(tmp_path / "interrupted.py").split()
    with OnTerminal(arguments) as program:
        assert program.end() == -signal.SIGINT, program.written
        assert program.lines() == ["Interrupted while modules were imported.", ""]


def test_the_programs_own_lines_get_their_traceback(tmp_path):
    (tmp_path / "own.py").write_text(
        "import muster, os, signal\n\n\ndef work():\n    os.kill(os.getpid(), signal.SIGINT)\n\n\nwork()\n"
    )
    with OnTerminal([str(tmp_path / "own.py")]) as program:
        assert program.end() == -signal.SIGINT, program.written
        assert "in work" in program.written


@pytest.mark.samples(
    "evaluation-Interrupted while evaluating: there are no new metrics.",
    "input-Interrupted before the first step: nothing new is saved.",
)
@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("input", "Interrupted before the first step: nothing new is saved."),
        ("evaluation", "Interrupted while evaluating: there are no new metrics."),
        ("evaluation's input", "Interrupted while evaluating: there are no new metrics."),
        ("prediction", "Interrupted while predicting."),
    ],
)
def test_calls_of_an_estimator(tmp_path, where, told):
    *before, last, rest = end(PROGRAM, where, tmp_path)
    assert (last, rest) == (told, "")
    assert before in ([], ["Finishing this step first; once more stops at once."])


def test_one_after_the_last_step_is_not_told_as_one_before_the_first(tmp_path):
    told = end(PROGRAM, "the last file", tmp_path)
    assert "Interrupted before the first step: nothing new is saved." not in told
    assert told[-2:] == ["Interrupted after the last step.", ""]
