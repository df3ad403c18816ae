"""What a notebook shows of an Estimator: its progress, and errors."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TRAINS = """
import tempfile

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec


def input_fn():
    x = np.ones((64, 4), "float32")
    return Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(8)


def model_fn(features, labels, mode, params):
    loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
    if params["wrong"] and loss > 3:
        loss = 2 * loss
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


Estimator(model_fn, tempfile.mkdtemp(), params={"wrong": False}).train(input_fn, max_steps=300);
"""
FAILS = """
Estimator(model_fn, tempfile.mkdtemp(), params={"wrong": True}).train(input_fn, max_steps=3);
"""


# In a process of its own, as an event loop of nbclient's stays open.
RUNS = """
import json, sys

import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(each) for each in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=120, allow_errors=True).execute()
json.dump([cell.outputs for cell in notebook.cells], sys.stdout)
"""


def test_a_cell_shows_one_line_that_is_updated_and_errors_of_the_program():
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    ran = subprocess.run(
        [sys.executable, "-c", RUNS],
        input=json.dumps([TRAINS, FAILS]), env={**os.environ, "FORCE_COLOR": "1"},
        stdout=subprocess.PIPE, text=True, check=True, timeout=150,
    )  # fmt: skip
    (display,), (*_, error) = json.loads(ran.stdout)
    assert display["output_type"] == "display_data"
    assert "300 of 300" in display["data"]["text/plain"]
    assert "loss" in display["data"]["text/plain"]
    assert error["output_type"] == "error"
    assert "keras.ops.cond" in error["evalue"]
    assert not any("muster/src" in line or "site-packages" in line for line in error["traceback"])
