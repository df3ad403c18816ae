"""Train the model of ``examples/recommender.py`` for ``bench.recommender``, as a task under ``muster run``.

Arguments: ``served``, ``mirrored``, or ``sparse``, which is mirrored with an optimizer that changes only
those rows that were looked up; the rows of the table of users, the number of batches, and the folder for
the results: ``seconds.json``, of all batches after the first ones, and ``TASK.json`` of each worker, with
the most memory that it took.
"""

import functools
import json
import resource
import sys
import time
from pathlib import Path

import muster
import muster_tensorflow as tf
from muster import keras
from muster.cluster import TFConfigClusterResolver
from muster.distribute import (
    FixedShardsPartitioner,
    MultiWorkerMirroredStrategy,
    ParameterServerStrategy,
    Server,
)
from muster.distribute.coordinator import ClusterCoordinator

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import recommender

KIND, ROWS, STEPS, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
FIRST_STEPS = 20


def write_memory(task: str) -> None:
    """Write the most memory that this process took, in MB."""
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    (FOLDER / f"{task}.json").write_text(json.dumps(taken))


def write_seconds(seconds: float) -> None:
    (FOLDER / "seconds.json").write_text(json.dumps(seconds))


def coordinate(resolver: TFConfigClusterResolver) -> None:
    """Have workers train, the table on the servers."""
    servers = len(resolver.cluster_spec().task_indices("ps"))
    strategy = ParameterServerStrategy(resolver, FixedShardsPartitioner(servers))
    coordinator = ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer = recommender.make_model(ROWS), recommender.make_optimizer()
        optimizer.build(model.trainable_variables)

    @muster.function
    def step(batches):
        return recommender.train_on(next(batches), model, optimizer)

    clicks = functools.partial(recommender.training_clicks, ROWS)
    batches = iter(coordinator.create_per_worker_dataset(clicks))
    for steps in (FIRST_STEPS, STEPS):
        began = time.perf_counter()
        for _ in range(steps):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
    write_seconds(time.perf_counter() - began)


def mirror(resolver: TFConfigClusterResolver) -> None:
    """Train in step with the other worker; each has the table."""
    strategy = MultiWorkerMirroredStrategy()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model, optimizer = recommender.make_model(ROWS), recommender.make_optimizer()
        if KIND == "sparse":
            optimizer = tf.keras.optimizers.legacy.Adagrad(0.2, initial_accumulator_value=1e-4)
        optimizer.build(model.trainable_variables)

    @muster.function
    def step(batch):
        losses = strategy.run(recommender.train_on, args=(batch, model, optimizer))
        return strategy.reduce("MEAN", losses, axis=None)

    clicks = strategy.distribute_datasets_from_function(lambda context: recommender.training_clicks(ROWS))
    batches = iter(clicks)
    for steps in (FIRST_STEPS, STEPS // 2):  # each step is one of both workers
        began = time.perf_counter()
        for _ in range(steps):
            loss = step(next(batches))
        float(loss)
    if resolver.task_id == 0:
        write_seconds(time.perf_counter() - began)


def main() -> None:
    resolver = TFConfigClusterResolver()
    task = f"{resolver.task_type} {resolver.task_id}"
    if KIND != "served":
        mirror(resolver)
    elif resolver.task_type == "chief":
        coordinate(resolver)
    else:
        Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
    if resolver.task_type == "worker":
        write_memory(task)


if __name__ == "__main__":
    main()
