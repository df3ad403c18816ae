"""A program with a coordinator, which counts and saves what it counts.

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

import muster
from muster import keras
from muster.checkpoint import Checkpointer, restore_latest
from muster.cluster import TFConfigClusterResolver
from muster.distribute import ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator, _worker_connection
from muster.distribute.servers import restore_variables, save_variables

A_ROUND = 20


def serve(resolver):
    print("serves", flush=True)
    server = Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()
    print("was told to end", flush=True)


class Counted:
    """Saves variables into a folder, and begins with what is there already."""

    def __init__(self, folder, objects):
        self.folder, self.objects, self.saves = folder, objects, 0
        if (found := restore_latest(folder, tables=False)) is not None:
            restore_variables(found, objects, "")
            self.saves = found.step

    def save(self):
        self.saves += 1
        with Checkpointer(self.folder, max_to_keep=2) as writer:
            save_variables(writer, self.saves, self.objects, {}, wait=True)


def count_up(resolver, folder, steps, pause):
    """Count in closures, until there were so many; save after each round."""
    strategy = ParameterServerStrategy(resolver)
    coordinator = ClusterCoordinator(strategy)
    with strategy.scope():
        step = keras.Variable(0, dtype="int32", name="step")
        places = keras.Variable([0.0] * 8, name="places")
    counted = Counted(folder / "checkpoints", {"step": [step], "places": [places]})
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

    @muster.function
    def train(iterator):
        number = next(iterator)
        step.assign_add(1)
        places.assign_add(keras.ops.ones(8))
        return number

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    try:
        count_rounds(coordinator, train, iterator, step, steps, counted, folder)
    except KeyboardInterrupt:
        coordinator.join()
        counted.save()
        print("saved at", int(step), flush=True)
        raise
    print("ends at", int(step), sorted(set(places.numpy().tolist())), flush=True)


def count_rounds(coordinator, train, iterator, step, steps, counted, folder):
    while (before := int(step)) < steps:
        count = min(A_ROUND, steps - before)
        numbers = [coordinator.schedule(train, args=(iterator,)) for _ in range(count)]
        coordinator.join()
        drawn = sorted(int(number) for number in coordinator.fetch(numbers))
        counted.save()
        print(f"counted {before} + {count} = {int(step)}, batches {drawn[0]} to {drawn[-1]}", flush=True)
        if (folder / "enough").exists():
            break


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    resolver = TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        if resolver.task_type == "worker" and options.get("fails"):
            sys.exit(5)
        serve(resolver)
        return
    for name, secs in options.get("patience", {}).items():
        setattr(_worker_connection, name, secs)
    count_up(resolver, Path(options["folder"]), options["steps"], options["pause"])
    if "ends" in options:
        sys.exit(options["ends"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
