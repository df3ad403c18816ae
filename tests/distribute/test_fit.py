"""`fit`, `evaluate` and `predict` under strategies of one process are those of one device."""

import functools

import jax
import pytest
from fit_cases import CASES, Case, check_same, outcome

from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    TPUStrategy,
    get_strategy,
)


def cpus(count):
    return [f"/cpu:{i}" for i in range(count)]


STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:1"),
    "mirrored 1": lambda: MirroredStrategy(cpus(1)),
    "mirrored 2": lambda: MirroredStrategy(cpus(2)),
    "mirrored 3": lambda: MirroredStrategy(cpus(3)),
    "mirrored 8": lambda: MirroredStrategy(cpus(8)),
    "central storage 2": lambda: CentralStorageStrategy(cpus(2)),
    "tpu 4": lambda: TPUStrategy(devices=jax.devices()[:4]),
}


@functools.cache
def on_one_device(case):
    return outcome(get_strategy(), case)


# Every strategy with two of the cases, and every case with a strategy at least.
PAIRS = [
    (name, CASES[(2 * place + step) % len(CASES)])
    for place, name in enumerate(STRATEGIES)
    for step in range(2)
]


@pytest.mark.parametrize(("name", "case"), PAIRS, ids=lambda value: str(value))
def test_training_is_that_of_one_device(name, case):
    found = outcome(STRATEGIES[name](), case)
    check_same(found, on_one_device(case))


@pytest.mark.parametrize(
    ("dataset", "arrays"), [("weighted dataset", "weighted"), ("distributed", "classes")]
)
def test_a_dataset_is_its_arrays(dataset, arrays):
    """Without a strategy, where Keras alone trains on arrays."""
    found = outcome(get_strategy(), Case("functional", "sgd", dataset))
    check_same(found, outcome(get_strategy(), Case("functional", "sgd", arrays)))
