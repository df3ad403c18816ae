"""Train a recommender with two towers on clicks, its tables on parameter servers.

The chief hands steps to the workers, which look up and change rows of tables that the servers hold. The
evaluator measures each checkpoint on clicks that nobody trained on:

    muster run --chief --workers 2 --ps 2 --evaluator examples/recommender.py

The table of users has more bytes than a worker may hold: WORKER_MB, below. The clicks are made up. So it is
known how probable each was, and which AUC a model can reach at best. The same command goes on from the last
checkpoint.
"""

import argparse
import functools
import os
import threading
import time

import numpy as np

import muster
import muster_tensorflow as tf
from muster import keras
from muster.cluster import TFConfigClusterResolver
from muster.data import Dataset
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server, SidecarEvaluator
from muster.distribute.coordinator import ClusterCoordinator

NUM_ITEMS = 1000
NUM_TRAINING, NUM_HELD_OUT = 400_000, 20_000  # clicks
BATCH_SIZE = 512
EPOCH_STEPS = 250  # of all workers together
DIM = 16  # numbers in a row of a table
WORKER_MB = 220  # what a worker may hold beside its code: data, programs and rows

# What people like are multiples of irrational numbers: spread evenly, and nothing that a model could guess.
IRRATIONALS = np.sqrt([2, 3, 5, 7])


def tastes(ids, shift):
    """Return four numbers in [-1, 1) for each id."""
    return (ids[:, np.newaxis] * IRRATIONALS + shift) % 1 * 2 - 1


def make_clicks(count, num_users, seed):
    """Return who saw which item, whether they clicked, and how probable that was."""
    rng = np.random.default_rng(seed)
    # A few users come often, and most of them hardly ever. Likewise a few items are popular.
    users = (num_users + 1.0) ** (rng.random(count) ** 2)
    items = (NUM_ITEMS + 1.0) ** rng.random(count)
    shown = {"user": users.astype(np.int32) - 1, "item": items.astype(np.int32) - 1}
    liking = np.sum(tastes(shown["user"], 0.0) * tastes(shown["item"], 0.5), axis=1)
    probability = 1 / (1 + np.exp(1 - 4 * liking))
    return shown, (rng.random(count) < probability).astype(np.float32), probability


def area_under_curve(scores, clicked):
    """Return how often a click has a higher score than what was not clicked, from 0 to 1."""
    positive = clicked[np.argsort(scores)] > 0.5
    lower = np.cumsum(~positive)[positive]
    return lower.sum() / (positive.sum() * (~positive).sum())


def make_model(num_users):
    """Return a model that gives the logit of a click, from a row for the user and a row for the item."""
    inputs = {name: keras.Input((), dtype="int32", name=name) for name in ("user", "item")}
    towers = []
    for name, rows in (("user", num_users), ("item", NUM_ITEMS)):
        spread = keras.initializers.RandomNormal(stddev=0.3)
        row = keras.layers.Embedding(rows, DIM, embeddings_initializer=spread, name=f"{name}s")(inputs[name])
        towers.append(keras.layers.Dense(DIM)(keras.layers.Dense(2 * DIM, activation="tanh")(row)))
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dot(axes=1)(towers)))


def make_optimizer():
    return keras.optimizers.Adagrad(0.2, initial_accumulator_value=1e-4)


def training_clicks(num_users):
    """Return a dataset of batches without an end, in another order each time."""
    shown, clicked, _ = make_clicks(NUM_TRAINING, num_users, seed=1)
    return Dataset.from_tensor_slices((shown, clicked)).shuffle(NUM_TRAINING).repeat().batch(BATCH_SIZE)


def train_on(batch, model, optimizer):
    """Make a step, and return its loss."""
    shown, clicked = batch
    with muster.GradientTape() as tape:
        logits = model(shown, training=True)
        loss = keras.losses.BinaryCrossentropy(from_logits=True)(clicked[:, np.newaxis], logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def resident_mb():
    """Return the memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def limit_memory(megabytes):
    """End this process as a container does, if from now on it takes so much more memory."""
    most = resident_mb() + megabytes

    def watch():
        while (taken := resident_mb()) <= most:
            time.sleep(0.02)
        print(f"This task takes {taken:.0f} MB, and may take {most:.0f}.", flush=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def train(args, resolver):
    """Have the workers train, and save a checkpoint after each epoch."""
    num_servers = len(resolver.cluster_spec().task_indices("ps"))
    strategy = ParameterServerStrategy(resolver, FixedShardsPartitioner(num_servers))
    coordinator = ClusterCoordinator(strategy)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model, optimizer = make_model(args.users), make_optimizer()
        optimizer.build(model.trainable_variables)

    @muster.function
    def step(batches):
        return train_on(next(batches), model, optimizer)

    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=optimizer), args.model_dir, max_to_keep=2
    )
    manager.restore_or_initialize()
    # Each worker reads all clicks, in an order of its own.
    dataset = coordinator.create_per_worker_dataset(functools.partial(training_clicks, args.users))
    batches = iter(dataset)
    table = 4e-6 * args.users * DIM
    print(f"The table of users has {table:.0f} MB; a worker may hold {WORKER_MB} MB.", flush=True)
    for epoch in range(int(optimizer.iterations) // EPOCH_STEPS, args.epochs):
        losses = [coordinator.schedule(step, args=(batches,)) for _ in range(EPOCH_STEPS)]
        coordinator.join()
        manager.save()
        loss = np.mean(coordinator.fetch(losses))
        print(f"Epoch {epoch + 1} of {args.epochs}: loss {loss:.4f}", flush=True)


def evaluate(args):
    """Measure each checkpoint, until training has ended."""
    shown, clicked, probability = make_clicks(NUM_HELD_OUT, args.users, seed=2)
    model = make_model(args.users)
    model.compile(
        keras.optimizers.Adagrad(),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(from_logits=True, name="auc")],
    )
    held_out = Dataset.from_tensor_slices((shown, clicked[:, np.newaxis])).batch(4096)
    *_, last = SidecarEvaluator(model, held_out, args.model_dir).start()
    best = area_under_curve(probability, clicked)
    print(f"AUC after {last.iterations} steps: {last.metrics['auc']:.3f}. The best possible is {best:.3f}.")


def main():
    parser = argparse.ArgumentParser(description="Train a recommender with its tables on parameter servers.")
    parser.add_argument("--model-dir", default="runs/recommender", help="(default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=8, help="how many (default: %(default)s)")
    parser.add_argument("--users", type=int, default=4_000_000, help="how many (default: %(default)s)")
    args = parser.parse_args()

    resolver = TFConfigClusterResolver()
    if resolver.task_type == "worker":
        limit_memory(WORKER_MB)
    match resolver.task_type:
        case "ps" | "worker":
            Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        case "chief":
            train(args, resolver)
        case "evaluator":
            evaluate(args)
        case _:
            raise SystemExit(
                "This is a program of several tasks. Start them by\n"
                f"muster run --chief --workers 2 --ps 2 --evaluator {parser.prog}"
            )


if __name__ == "__main__":
    main()
