"""Every strategy trains as one device does: by fit, and in custom loops of both forms.

fit sees whole batches: it is compared with fit on one device, batch normalization and dropout too. Code in a
loop sees a replica's part of them, which has statistics and masks of its own: it is compared with the same
parts one after the other on one device; with whole batches where the model has no such state.
"""

import itertools
import os

import jax
import numpy as np
import pytest
from conformance import CASES, EPOCHS, LOOP_DATA, Y, by_keras, check_same, fitted
from conformance_loops import by_hand, looped
from fit_cases import MODELS, OPTIMIZERS

from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    TPUStrategy,
    get_strategy,
)


def devices(count):
    """So many CPU devices; of the platform that MUSTER_TEST_PLATFORM names, as many of them as there are."""
    platform = os.environ.get("MUSTER_TEST_PLATFORM", "cpu")
    there = count if platform == "cpu" else min(count, len(jax.devices(platform)))
    return [f"/{platform}:{i}" for i in range(there)]


STRATEGIES = {
    "default": get_strategy,
    "one device": lambda: OneDeviceStrategy(devices(2)[-1]),
    "mirrored 1": lambda: MirroredStrategy(devices(1)),
    "mirrored 2": lambda: MirroredStrategy(devices(2)),
    "mirrored 3": lambda: MirroredStrategy(devices(3)),
    "mirrored 8": lambda: MirroredStrategy(devices(8)),
    "central storage 2": lambda: CentralStorageStrategy(devices(2)),
    "tpu 4": lambda: TPUStrategy(devices=jax.devices()[:4]),
}
# One device and many do what the same strategy does on two. To compile as users do takes much longer, and is
# the same for all.
MARKS = {
    "mirrored 1": pytest.mark.slow,
    "mirrored 2 fit": pytest.mark.optimized,
    "mirrored 3": pytest.mark.soak,
    "mirrored 8": pytest.mark.slow,
}
PAIRS = [
    pytest.param(name, case, marks=[MARKS[key] for key in (name, f"{name} {case.way}") if key in MARKS])
    for name in STRATEGIES
    for case in CASES[name]
]


def test_every_pair_of_values_occurs():
    """Of a way to train with each strategy; within a way, of models, optimizers and data."""
    assert len(CASES) == len(STRATEGIES) + 2
    for name, cases in CASES.items():
        assert {case.way for case in cases} | {"fit"} == {"fit", "tape", "native"}
        if name != "default":
            assert {case.model for case in cases} == set(MODELS)
            assert {case.optimizer for case in cases} == set(OPTIMIZERS)
    for way in ("fit", "tape", "native"):
        cases = [case for case in itertools.chain(*CASES.values()) if case.way == way]
        assert {(c.model, c.optimizer) for c in cases} == set(itertools.product(MODELS, OPTIMIZERS))
        if way != "fit":
            assert {(c.model, c.data) for c in cases} == set(itertools.product(MODELS, LOOP_DATA))
            assert {(c.optimizer, c.data) for c in cases} == set(itertools.product(OPTIMIZERS, LOOP_DATA))


@pytest.mark.parametrize(("name", "case"), PAIRS, ids=str)
def test_training_is_that_of_one_device(name, case):
    strategy = STRATEGIES[name]()
    if case.way == "fit":
        check_same(fitted(strategy, case), by_keras(case))
        return
    found = looped(strategy, case)
    expected = by_hand(case, strategy.num_replicas_in_sync, found["seeds"])
    check_same(found, expected)
    assert found["seen"] == expected["seen"]
    assert found["classes"] == (EPOCHS * np.bincount(Y)).tolist()
    for seeds in found["seeds"]:
        assert len(set(map(tuple, seeds))) == strategy.num_replicas_in_sync
