"""An Estimator whose variables are on servers trains as one without."""

import jax
import numpy as np
import pytest
from estimator_runs import X, Y, model_fn_of

from muster._errors import NanLossDuringTrainingError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import Strategy
from muster.distribute.engine._flat_arrays import Rows
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._served import ServedEngine
from muster.estimator import Estimator, RunConfig
from muster.ps import Held
from noted_losses import Losses


class MemoryServers:
    """Servers in this process: they hold buffers, and run updates."""

    count = 2

    def __init__(self):
        self.held, self.pushes = None, 0

    def start(self, division, values):
        assert self.held is None
        self.held = division.split(values)
        self.updates = [jax.jit(share.update) for share in division.shares]
        return self.pull()

    def push_and_pull(self, pushed):
        self.pushes += 1
        self.held = [
            Held(*update(*held[:2], push.flat))
            for update, held, push in zip(self.updates, self.held, pushed, strict=True)
        ]
        return self.pull()

    def pull(self):
        return [held.pulled for held in self.held]

    def read(self):
        return self.held


def place(variables):
    """Divide what has four rows and more; the rest in turn."""
    placed = {}
    for number, spec in enumerate(variables):
        if spec.shape and spec.shape[0] >= 4:
            placed[spec.path] = [Rows(0, 0, 3), Rows(1, 3, spec.shape[0])]
        else:
            placed[spec.path] = [Rows(number % 2)]
    return placed


@pytest.mark.samples("Adam")
@pytest.mark.parametrize("kind", [keras.optimizers.Adam, keras.optimizers.SGD])
def test_an_estimator_trains_as_without_servers(tmp_path, kind):
    def trained(folder, strategy):
        hook = Losses()
        estimator = Estimator(
            model_fn_of(lambda: kind(0.01)), folder, RunConfig(tf_random_seed=1, train_distribute=strategy)
        )
        estimator.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(64).repeat(), hooks=[hook], steps=20)
        return hook.losses, {
            name: estimator.get_variable_value(name) for name in estimator.get_variable_names()
        }

    servers = MemoryServers()
    losses, values = trained(tmp_path / "served", Strategy(Placement(None), ServedEngine(servers, place)))
    expected, of_one = trained(tmp_path / "one", None)
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    assert values.keys() == of_one.keys()
    for name, value in of_one.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert servers.pushes == 20


def test_a_step_whose_loss_is_no_number_is_not_pushed(tmp_path):
    features = X.copy()
    features[2 * 64] = np.nan  # in the third batch
    servers = MemoryServers()
    estimator = Estimator(
        model_fn_of(lambda: keras.optimizers.Adam(0.01)),
        tmp_path,
        RunConfig(tf_random_seed=1, train_distribute=Strategy(Placement(None), ServedEngine(servers, place))),
    )
    with pytest.raises(NanLossDuringTrainingError):
        estimator.train(lambda: Dataset.from_tensor_slices((features, Y)).batch(64), steps=20)
    assert servers.pushes == 2
    assert all(np.isfinite(buffer).all() for buffer in jax.tree.leaves(servers.held))
