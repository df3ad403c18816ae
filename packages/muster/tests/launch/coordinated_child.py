"""A program with a coordinator, as TensorFlow's guide writes it, which counts and saves what it counts.

Argument: JSON: folder (of checkpoints; when there is a file "enough" in it, this ends), steps (how many at
most), pause (how long one takes, in seconds), fails (whether workers fail when they start), ends (a code for
sys.exit in the coordinator; without it, it returns), patience (other values for constants in seconds, by
name).
"""

import json
import logging
import sys
import time
from pathlib import Path

import muster_tensorflow as tf
from muster.distribute import ParameterServerStrategy
from muster.distribute.coordinator import ClusterCoordinator, _link

A_ROUND = 20


def serve(resolver):
    print("serves", flush=True)
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()
    print("was told to end", flush=True)


def count_up(resolver, folder, steps, pause):
    """Count in closures, until there were so many; save after each round."""
    strategy = ParameterServerStrategy(resolver)
    coordinator = ClusterCoordinator(strategy)
    with strategy.scope():
        step = tf.Variable(0, dtype="int64", name="step")
        places = tf.Variable([0.0] * 8, name="places")
    checkpoint = tf.train.Checkpoint(step=step, places=places)
    manager = tf.train.CheckpointManager(checkpoint, str(folder / "checkpoints"), max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint)
    print("begins at", int(step), flush=True)

    def batches():
        from muster.data import Dataset

        def elements():
            number = 0
            while True:
                time.sleep(pause)
                number += 1
                yield number

        return Dataset.from_generator(elements, output_types="int64", output_shapes=())

    @tf.function
    def train(iterator):
        number = next(iterator)
        step.assign_add(1)
        places.assign_add(tf.ones(8))
        return number

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    try:
        count_rounds(coordinator, train, iterator, step, steps, manager, folder)
    except KeyboardInterrupt:
        coordinator.join()
        manager.save()
        print("saved at", int(step), flush=True)
        raise
    print("ends at", int(step), sorted(set(places.numpy().tolist())), flush=True)


def count_rounds(coordinator, train, iterator, step, steps, manager, folder):
    while (before := int(step)) < steps:
        count = min(A_ROUND, steps - before)
        numbers = [coordinator.schedule(train, args=(iterator,)) for _ in range(count)]
        coordinator.join()
        drawn = sorted(int(number) for number in coordinator.fetch(numbers))
        manager.save()
        print(f"counted {before} + {count} = {int(step)}, batches {drawn[0]} to {drawn[-1]}", flush=True)
        if (folder / "enough").exists():
            break


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        if resolver.task_type == "worker" and options.get("fails"):
            sys.exit(5)
        serve(resolver)
        return
    for name, secs in options.get("patience", {}).items():
        setattr(_link, name, secs)
    count_up(resolver, Path(options["folder"]), options["steps"], options["pause"])
    if "ends" in options:
        sys.exit(options["ends"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
