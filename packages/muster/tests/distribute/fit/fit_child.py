"""One worker of a job that calls fit. Run by test_fit_multiprocess.py.

Argument: JSON: scenario, and report (where to write what came of it), or what the scenario needs.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

import jax
import numpy as np
from fit_cases import BATCH, Losses, X, Y, built

import muster
from muster._keras import keras
from muster.cluster import TFConfigClusterResolver
from muster.data import Dataset
from muster.distribute import CommunicationOptions, DatasetCreator, MultiWorkerMirroredStrategy

EARLY = np.random.rand(96, 6).astype(np.float32)  # before the workers meet


class Reverses(keras.layers.Layer):
    """Gives each row of the batch another one's; XLA knows how to do so on several devices."""

    def call(self, x):
        return x + 0.1 * x[::-1]


def mixed_rows(strategy, options):
    """What muster does not divide among the workers; the last batch each computes whole in any case."""
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = keras.Sequential([Reverses(), keras.layers.Dense(3)])
        model.compile(
            keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )
    rows = {"batch_size": BATCH, "verbose": 0}
    history = model.fit(X, Y, epochs=2, shuffle=False, validation_data=(X, Y), **rows).history
    return {
        "history": history,
        "evaluated": model.evaluate(X, Y, return_dict=True, **rows),
        "predicted": model.predict(X, **rows).tolist(),
    }


def own_data(strategy, options):
    """Each worker has examples of its own, and the first has more of them."""
    rank = strategy.input_context.input_pipeline_id
    rows = slice(0, 160) if rank == 0 else slice(160, 250)
    with strategy.scope():
        model = built(optimizer="sgd")
    dataset = strategy.distribute_datasets_from_function(
        lambda context: Dataset.from_tensor_slices((X[rows], Y[rows])).batch(16)
    )
    seen = model.evaluate(dataset, verbose=0, return_dict=True)
    whole = model.evaluate(X[:250], Y[:250], batch_size=50, verbose=0, return_dict=True)
    history = model.fit(dataset, epochs=3, verbose=0).history
    return {
        "own": seen,
        "whole": whole,
        "history": history,
        "pools as JAX does": pools_as_jax_does(),
        "augmented": [augmented(strategy, steps) for steps in ("Keras", "own")],
    }


class OwnStep(keras.Sequential):
    """A model with a step of TensorFlow's kind."""

    def train_step(self, data):
        x, y = data
        with muster.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        return {"loss": loss}


def augmented(strategy, steps):
    """The weights after rows that each worker changes at random; the last batch has one for both."""
    random_rows = np.random.default_rng(os.getpid())
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = (OwnStep if steps == "own" else keras.Sequential)([keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = Dataset.from_tensor_slices((X[:9], Y[:9])).map(
        lambda x, y: (x + random_rows.normal(size=x.shape).astype(np.float32), y)
    )
    model.fit(dataset.batch(4), epochs=2, verbose=0)
    return [np.asarray(weight.value).tolist() for weight in model.weights]


def dataset_creator(strategy, options):
    """Each worker calls a function of its context for its part of every batch of 16 rows."""

    def dataset_fn(context):
        dataset = Dataset.from_tensor_slices((X[:64], Y[:64]))
        dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
        return dataset.repeat().batch(context.get_per_replica_batch_size(16))

    with strategy.scope():
        model = built("functional")
    data = DatasetCreator(dataset_fn)
    history = model.fit(data, epochs=2, steps_per_epoch=4, verbose=0).history
    return {"history": history, "evaluated": model.evaluate(data, steps=4, verbose=0, return_dict=True)}


def pools_as_jax_does():
    """Whether the gradient of max pooling is what JAX makes of it, rather than what muster does on CPUs."""
    pool = keras.layers.MaxPooling2D()
    gradient = jax.jit(jax.grad(lambda images: pool(images).sum()))
    return "select_and_scatter" in gradient.lower(np.ones((2, 4, 4, 3), np.float32)).as_text()


def callbacks(strategy, options):
    """The chief writes; one worker's wish to stop is everybody's."""
    rank = strategy.input_context.input_pipeline_id
    folder = Path(options["files"])

    class StopsAlone(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if rank == 1 and self.model.optimizer.iterations == 11:  # the third step of the second epoch
                self.model.stop_training = True

    with strategy.scope():
        model = built(optimizer="sgd")
    losses = Losses()
    model.fit(
        X,
        Y,
        batch_size=BATCH,
        epochs=4,
        verbose=0,
        callbacks=[
            losses,
            StopsAlone(),
            keras.callbacks.ModelCheckpoint(folder / f"model-{rank}.keras"),
            keras.callbacks.CSVLogger(folder / f"log-{rank}.csv"),
            keras.callbacks.TensorBoard(folder / f"board-{rank}"),
        ],
        validation_data=(X, Y),
    )
    early = keras.callbacks.EarlyStopping("loss", min_delta=10.0, patience=1, restore_best_weights=True)
    history = model.fit(X, Y, batch_size=BATCH, epochs=9, verbose=0, callbacks=[early]).history
    return {"losses": losses.losses, "early": history, "weights": np.asarray(model.weights[0].value).tolist()}


def backup(strategy, options):
    """Dies once in the middle of the second epoch; goes on at the next step. Then one that is left alone."""
    rank = strategy.input_context.input_pipeline_id

    class Dies(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if rank == options["dies"] and self.model.optimizer.iterations == 14:
                os.kill(os.getpid(), signal.SIGKILL)

    def trained(*callbacks):
        with strategy.scope():
            model = built(optimizer="adam")
        losses = Losses()
        callbacks = [losses, *callbacks]
        history = model.fit(X, Y, batch_size=BATCH, epochs=3, verbose=0, callbacks=callbacks).history
        weights = np.asarray(model.weights[0].value).tolist()
        return {"losses": losses.losses, "history": history, "weights": weights}

    folder = Path(options["files"]) / "backup"
    saved = keras.callbacks.BackupAndRestore(folder, save_freq=3, delete_checkpoint=False)
    return {"resumed": trained(saved, Dies()), "left alone": trained()}


def failing_callback(strategy, options):
    rank = strategy.input_context.input_pipeline_id

    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if rank == 1 and batch == 3:
                raise ZeroDivisionError("this callback fails")

    with strategy.scope():
        model = built()
    model.fit(X, Y, batch_size=BATCH, epochs=100, verbose=0, callbacks=[Fails()])


def other_structure(strategy, options):
    rank = strategy.input_context.input_pipeline_id
    with strategy.scope():
        model = built()
    model.fit(X, Y if rank == 0 else Y.astype(np.float32), batch_size=BATCH, verbose=0)


def other_contents(strategy, options):
    rank = strategy.input_context.input_pipeline_id
    with strategy.scope():
        model = built()
    model.fit(X[rank:], Y[rank:], batch_size=BATCH, verbose=0)


def unseeded(strategy, options):
    """What a program without any seed draws once the strategy is made, and trains on."""
    inputs = np.random.rand(96, 6).astype(np.float32)
    labels = [random.randrange(3) for _ in inputs]
    shuffled = [int(each) for each in Dataset.range(20).shuffle(20)]
    noise = np.asarray(keras.random.normal((4,)))
    with strategy.scope():
        model = built()
    fitted = model.fit(inputs, np.array(labels), batch_size=BATCH, epochs=2, verbose=0).history
    dataset = Dataset.from_tensor_slices((inputs, np.array(labels))).shuffle(96).batch(BATCH)
    again = model.fit(dataset, verbose=0).history
    return [inputs.tolist(), labels, shuffled, noise.tolist(), fitted, again]


def other_data(strategy, options):
    """The weights after the same data in forms that Keras does not know, and in those that it does."""

    def trained(*data, **arguments):
        with strategy.scope():
            model = built()
        model.fit(*data, shuffle=False, verbose=0, **arguments)
        return [np.asarray(weight.value).tolist() for weight in model.weights]

    batches = [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, len(X), BATCH)]
    return {
        "arrays": trained(X, Y, batch_size=BATCH),
        "lists": trained(X.tolist(), Y.tolist(), batch_size=BATCH),
        "a list of batches": trained(batches),
        "lists of arrays": trained([list(batch) for batch in batches]),
        "a generator": trained(batch for batch in batches),
        "an iterator": trained(map(tuple, batches)),
    }


def drawn_early(strategy, options):
    with strategy.scope():
        model = built()
    model.fit(EARLY, Y[:96], batch_size=BATCH, verbose=0)


def generator_of_its_own(strategy, options):
    with strategy.scope():
        model = built()
    inputs = np.random.default_rng().random((96, 6), np.float32)
    model.fit(inputs, Y[:96], batch_size=BATCH, verbose=0)


def killed(strategy, options):
    rank = strategy.input_context.input_pipeline_id

    class Dies(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if rank == 1 and batch == 5:
                os.kill(os.getpid(), getattr(signal, options["signal"]))

    with strategy.scope():
        model = built()
    model.fit(X, Y, batch_size=BATCH, epochs=10**6, verbose=0, callbacks=[Dies()])


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given.get("join"):
        jax.distributed.initialize(given["join"], 2, TFConfigClusterResolver().task_id)
    communication = CommunicationOptions(timeout_seconds=given.get("timeout_seconds"))
    strategy = MultiWorkerMirroredStrategy(communication_options=communication)
    report = globals()[given["scenario"]](strategy, given)
    if "report" in given:
        Path(given["report"]).write_text(json.dumps(report, default=float))
