"""Shares of the loss over a global batch, by TensorFlow's recorded cases."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster.distribute import (
    CentralStorageStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    get_strategy,
)
from recorded import cases

MAKERS = {
    "default": lambda: get_strategy(),
    "one_device": lambda: OneDeviceStrategy("/cpu:0"),
    **{f"central{n}": lambda n=n: CentralStorageStrategy([f"/cpu:{i}" for i in range(n)]) for n in (1, 2)},
    **{f"mirrored{n}": lambda n=n: MirroredStrategy([f"/cpu:{i}" for i in range(n)]) for n in (1, 2, 3)},
}


def is_ours(case: dict[str, Any]) -> bool:
    strategy, family, *_ = case["name"].split("/")
    return strategy in MAKERS and family in ("average_loss", "regularization_loss")


@pytest.mark.parametrize("case", cases("strategy_api", is_ours))
def test_shares_of_the_loss(case: dict[str, Any]) -> None:
    name, family, what = case["name"].split("/", 2)
    strategy = MAKERS[name]()
    count = strategy.num_replicas_in_sync
    asked, expect = dict(case["input"]["inputs"]), case["expect"]
    value = asked.pop("per_example_loss" if family == "average_loss" else "loss")
    function = tf.nn.compute_average_loss if family == "average_loss" else tf.nn.scale_regularization_loss

    def compute() -> Any:
        if "cross_replica" in what:
            with strategy.scope():
                return function(np.array(value, np.float32), **asked)
        if value == "scalar":
            return strategy.run(lambda: function(np.float32(1.0), **asked))
        each = np.array(value, np.float32)
        if what.startswith("in_replica") and family == "average_loss":
            given = PerReplica(each) if count > 1 else each[0]
            return strategy.run(lambda losses: function(losses, **asked), (given,))
        return strategy.run(lambda: function(each, **asked))

    if "error" in expect:
        with pytest.raises((ValueError, TypeError, RuntimeError)) as raised:
            compute()
        # What follows describes a tensor of TensorFlow's.
        assert str(raised.value).startswith(expect["error"]["message"][:30])
        if expect["error"]["type"] != "InvalidArgumentError":  # from a kernel
            assert type(raised.value).__name__ == expect["error"]["type"]
        return
    result = compute()
    if "per_replica" in expect:
        np.testing.assert_allclose([float(each) for each in result.values], expect["per_replica"], rtol=1e-6)
    else:
        np.testing.assert_allclose(float(result), expect["value"], rtol=1e-6)
