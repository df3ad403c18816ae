"""What a loop under a strategy makes of typed random keys, which NumPy cannot hold.

As a program it is one worker of a job; argument: JSON: devices, how many it has, and report, a file for what
it saw.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

from muster.distribute import MultiWorkerMirroredStrategy, Strategy, function


def drawn(key):
    return jax.random.uniform(key, (2,))


def numbers_of(strategy: Strategy, keys):
    """What is drawn from this process' keys."""
    return [np.asarray(drawn(key)).tolist() for key in strategy.experimental_local_results(keys)]


def seen(strategy: Strategy):
    """What this process' replicas draw, from keys that go in, come out, go round and are gathered."""
    key = jax.random.key(0)

    def with_own(own):
        return strategy.run(lambda key: jax.random.split(key, 1), (own,))

    @function
    def step(key):
        following, used = jax.random.split(key)
        return following, strategy.reduce("sum", strategy.run(drawn, (used,)), axis=None)

    own = strategy.experimental_distribute_values_from_function(
        lambda context: jax.random.key(context.replica_id_in_sync_group)
    )
    following, first = step(key)
    _, second = step(following)
    same = strategy.experimental_local_results(strategy.run(drawn, (key,)))
    return {
        "same": [np.asarray(number).tolist() for number in same],
        "own": numbers_of(strategy, strategy.run(lambda key: key, (own,))),
        "sums": [np.asarray(first).tolist(), np.asarray(second).tolist()],
        "gathered": [np.asarray(drawn(key)).tolist() for key in strategy.gather(with_own(own), axis=0)],
    }


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    jax.config.update("jax_num_cpu_devices", options["devices"])
    Path(options["report"]).write_text(json.dumps(seen(MultiWorkerMirroredStrategy())))
