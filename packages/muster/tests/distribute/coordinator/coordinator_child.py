"""A coordinator: it has workers count, and prints what they found; the argument says what else it does."""

import json
import os
import sys
import threading
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import numpy as np  # noqa: E402

from jobs import free_addresses  # noqa: E402
from muster.cluster import ClusterSpec, SimpleClusterResolver  # noqa: E402
from muster.distribute import ParameterServerStrategy, function  # noqa: E402
from muster.distribute.coordinator import ClusterCoordinator  # noqa: E402

options = json.loads(sys.argv[1])
workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
cluster = ClusterSpec({"worker": workers, "ps": free_addresses(1)})  # nobody is there, nor needed
coordinator = ClusterCoordinator(ParameterServerStrategy(SimpleClusterResolver(cluster)))


@function
def double(x):
    return x * 2


values = [coordinator.schedule(double, args=(np.int32(i),)) for i in range(20)]
coordinator.join()
print("made", sum(int(value) for value in coordinator.fetch(values)), flush=True)
if options["hangs"]:
    threading.Event().wait()
