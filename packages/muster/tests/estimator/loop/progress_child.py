"""A program that trains, evaluates and predicts as its arguments say, without setting up a log."""

import logging
import signal
import sys
import time

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    train_and_evaluate,
)

ROWS = np.ones((64, 4), "float32")


def model_fn(features, labels, mode):
    prediction = keras.layers.Dense(1)(features)[:, 0]
    if labels is None:
        return EstimatorSpec(mode, predictions={"sum": prediction})
    loss = keras.ops.mean((prediction - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op, predictions={"sum": prediction})


class Deeds(SessionRunHook):
    """Takes its time in each step, and writes in some."""

    def __init__(self, words):
        self.words = words

    def after_run(self, run_context, run_values):
        step = run_context.session.global_step
        time.sleep(0.02)
        if "print" in self.words and step % 10 == 0:
            print("printed at", step)
        if "log" in self.words and step % 10 == 5:
            logging.getLogger("of.the.program").warning("logged at %d", step)
        if "ctrl-c" in self.words and step == 50:
            signal.raise_signal(signal.SIGINT)
        if "unfinished" in self.words and step == 20:
            print("this takes", end=" ", flush=True)
            time.sleep(1)
            print("a while")


def input_fn():
    return Dataset.from_tensor_slices((ROWS, ROWS.sum(axis=1))).repeat().batch(16)


def eval_input_fn():
    return Dataset.from_tensor_slices((ROWS, ROWS.sum(axis=1))).batch(16)


def main(model_dir, *words):
    if "info" in words:
        logging.basicConfig(level=logging.INFO)
    quiet = {"log_step_count_steps": None} if "quiet" in words else {}
    estimator = Estimator(model_fn, model_dir, RunConfig(save_checkpoints_steps=40, **quiet))
    hooks = [Deeds(words)]
    if "train" in words:
        estimator.train(input_fn, hooks, max_steps=100)
    if "evaluate" in words:
        estimator.evaluate(eval_input_fn, hooks=hooks)
    if "predict" in words:
        for prediction in estimator.predict(lambda: Dataset.from_tensor_slices(ROWS).batch(2), hooks=hooks):
            print("predicted", prediction["sum"].shape)
    if "both" in words:
        evaluates = EvalSpec(eval_input_fn, steps=None, throttle_secs=0)
        print("returned", train_and_evaluate(estimator, TrainSpec(input_fn, 100, hooks), evaluates))


if __name__ == "__main__":
    main(*sys.argv[1:])
