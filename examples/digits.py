"""Train a small CNN on scikit-learn's digits, evaluate it while it trains, and resume after a stop.

    python examples/digits.py
    muster run --workers 2 --evaluator examples/digits.py
    muster run --chief --workers 1 --ps 1 --evaluator examples/digits.py

Ctrl-C stops it at any moment; the same command resumes with the next example.
"""

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import muster
from muster import keras
from muster.checkpoint import list_checkpoints
from muster.cluster import TFConfigClusterResolver
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    ModeKeys,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    train_and_evaluate,
)

BATCH_SIZE = 64  # of all replicas together
SHOW_EVERY = 50  # steps


def load_data():
    """Return images of shape (n, 8, 8, 1) in [0, 1] and labels: four fifths to train, one to evaluate."""
    digits = load_digits()
    images = (digits.images[..., np.newaxis] / 16).astype("float32")
    labels = digits.target.astype("int32")
    return train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)


def model_fn(features, labels, mode, params):
    """Describe what a step computes. muster traces this function and compiles the step."""
    model = keras.Sequential(
        [
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10),
        ]
    )
    logits = model(features, training=mode == ModeKeys.TRAIN)
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"digit": keras.ops.argmax(logits, axis=-1)})

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    if mode == ModeKeys.EVAL:
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        accuracy.update_state(labels, logits)
        muster.name_output("accuracy", accuracy.result())  # so that a hook can ask for it
        return EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    learning_rate = keras.optimizers.schedules.CosineDecay(2e-3, params["max_steps"])
    optimizer = keras.optimizers.Adam(learning_rate)
    train_op = muster.minimize(optimizer, loss, global_step=muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class ShowTraining(SessionRunHook):
    """Print a line about training now and then, where there is no terminal: on one muster shows a bar."""

    def __init__(self, max_steps):
        self.max_steps = max_steps
        self.shown = 0

    def after_create_session(self, session, coord):
        self.shown = session.global_step // SHOW_EVERY

    def after_run(self, run_context, run_values):
        step = run_context.session.global_step
        if step // SHOW_EVERY == self.shown and step != self.max_steps:
            return  # reading the loss waits for the step, so only now and then
        self.shown = step // SHOW_EVERY  # other workers may have made the step in between
        print(f"step {step} of {self.max_steps}: loss {run_context.session.run('loss'):.4f}", flush=True)


class ShowEvaluation(SessionRunHook):
    """Print the result of each evaluation, where muster does not show it."""

    def end(self, session):
        loss, accuracy = session.run(["loss", "accuracy"])
        where = f"evaluated at step {session.global_step}"
        print(f"{where}: accuracy {accuracy:.2%}, loss {loss:.4f}", flush=True)


def remove_run(model_dir):
    """Remove the files that training wrote, and nothing else."""
    for path in Path(model_dir).glob("*"):
        if path.name.startswith(("ckpt-", "eval")):
            shutil.rmtree(path)
        elif path.name.startswith("events."):
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description="Train a small CNN on scikit-learn's digits.")
    parser.add_argument("--model-dir", default="runs/digits", help="where it is kept (default: %(default)s)")
    parser.add_argument("--max-steps", type=int, default=600, help="where to stop (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="forget an earlier run and start anew")
    args = parser.parse_args()

    # Under `muster run` the workers connect here; without it, the program uses the device that it finds.
    # An Estimator without a strategy uses the parameter servers of the cluster, if there are any.
    has_servers = "ps" in TFConfigClusterResolver().cluster_spec().jobs
    strategy = None if has_servers else MultiWorkerMirroredStrategy()
    console = Console(highlight=False)
    train_images, test_images, train_labels, test_labels = load_data()

    def train_input_fn(input_context, config):
        workers, worker = input_context.num_input_pipelines, input_context.input_pipeline_id
        # `get_per_replica_batch_size` does the same, but for numbers of workers that do not divide the batch.
        batch_size = BATCH_SIZE // input_context.num_replicas_in_sync or 1
        examples = Dataset.from_tensor_slices((train_images, train_labels)).shard(workers, worker)
        # With parameter servers each worker reads all examples, in an order of its own. Otherwise the order
        # is that of the pipeline, whichever worker reads it.
        seed = 1 + (config.global_id_in_cluster if has_servers else worker)
        return examples.shuffle(len(train_images), seed=seed).repeat().batch(batch_size)

    def eval_input_fn():
        return Dataset.from_tensor_slices((test_images, test_labels)).batch(BATCH_SIZE)

    estimator = Estimator(
        model_fn,
        model_dir=args.model_dir,
        config=RunConfig(
            tf_random_seed=1, save_checkpoints_steps=150, save_summary_steps=50, train_distribute=strategy
        ),
        params={"max_steps": args.max_steps},
    )
    if args.fresh and (estimator.config.is_chief or not has_servers):  # else others may train already
        remove_run(args.model_dir)
    prints = not sys.stderr.isatty()
    hooks = [ShowTraining(args.max_steps)] if prints and estimator.config.is_chief else []
    checkpoints = list_checkpoints(args.model_dir)
    if checkpoints and estimator.config.is_chief:
        console.print(f"Found step {checkpoints[-1].step} in {args.model_dir}.")
    try:
        metrics, _ = train_and_evaluate(
            estimator,
            TrainSpec(train_input_fn, args.max_steps, hooks=hooks),
            EvalSpec(
                eval_input_fn,
                steps=None,
                hooks=[ShowEvaluation()] if prints else [],
                start_delay_secs=0,
                throttle_secs=0,
            ),
        )
        config = estimator.config
        trains_alone = config.is_chief and config.num_worker_replicas == 1
        if config.task_type != "evaluator" and not trains_alone:
            return 0  # with several workers, the evaluator reports the accuracy
        if metrics is None:
            if not config.cluster_spec and config.task_type != "evaluator":
                console.print(f"All {args.max_steps} steps are done: only evaluating. --fresh starts anew.")
            metrics = estimator.evaluate(eval_input_fn)
    except KeyboardInterrupt:
        saved = list_checkpoints(args.model_dir)
        where = f"step {saved[-1].step} is saved in {args.model_dir}" if saved else "nothing was saved yet"
        console.print(f"\nStopped: {where}. Run the same command to go on.")
        return 130
    accuracy = f"[bold]{metrics['accuracy']:.2%}[/bold]"
    console.print(f"\nAccuracy on the {len(test_labels)} held-out images: {accuracy}")
    console.print(f"Checkpoints: {args.model_dir} (muster inspect {args.model_dir})")
    console.print(f"Curves:      tensorboard --logdir {args.model_dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
