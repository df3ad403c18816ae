"""`fit` and `evaluate` under ParameterServerStrategy with real processes, some of which are killed."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from coordinated import counting
from fit_cases import X, Y, same

from jobs import Job
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import ParameterServerStrategy
from muster.distribute.coordinator import ClusterCoordinator

_HERE = Path(__file__).parent
_SERVER = [_HERE.parent / "coordinator" / "server_child.py"]
_COORDINATOR = [_HERE / "coordinated_child.py"]

# Keras' own:
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.processes,
]


class Kills(keras.callbacks.Callback):
    """Kills a worker after some steps of a training and of an evaluation, and starts another one."""

    def __init__(self, job, workers):
        super().__init__()
        self.job, self.workers, self.kills = job, workers, 0

    def _kill(self, batch, step):
        if batch == step:
            lost = self.kills % 2
            self.workers[lost].process.kill()
            assert self.workers[lost].code() == -signal.SIGKILL
            self.workers[lost] = self.job.start("worker", lost)
            self.kills += 1

    def on_train_batch_end(self, batch, logs=None):
        self._kill(batch, 100)

    def on_test_batch_end(self, batch, logs=None):
        self._kill(batch, 60)


def test_every_example_counts_once_although_workers_are_killed(tmp_path):
    x, y = np.tile(X, (5, 1)), np.tile(Y, 5)
    with Job(tmp_path, _SERVER, worker=2, ps=1) as job:
        job.start("ps")
        workers = [job.start("worker", index) for index in range(2)]
        strategy = ParameterServerStrategy(SimpleClusterResolver(ClusterSpec(job.cluster)))
        try:
            with strategy.scope():
                model = counting()
            kills = Kills(job, workers)
            data = {"x": x, "y": y, "batch_size": 8, "verbose": 0, "callbacks": [kills]}
            history = model.fit(**data, epochs=2).history
            assert history["examples"] == [len(x)] * 2
            assert int(model.optimizer.iterations.value) == 2 * len(x) // 8
            assert model.evaluate(**data, return_dict=True)["examples"] == len(x)
            assert kills.kills == 3
            found = model.predict(x, batch_size=8, verbose=0)
            np.testing.assert_allclose(found, model.predict(x, batch_size=len(x), verbose=0), atol=1e-5)
        finally:
            ClusterCoordinator(strategy).close()
            strategy.close()


def test_a_coordinator_that_was_killed_goes_on_at_the_exact_step(tmp_path):
    options = {"backup": str(tmp_path / "backup"), "report": str(tmp_path / "report")}
    options |= {"kills_at": 11, "saves": 5}  # the fifth is of step 10
    with Job(tmp_path, _SERVER, worker=1, ps=1) as job:
        job.start("ps")
        job.start("worker")
        chief = Job(tmp_path / "chief", _COORDINATOR)
        chief.cluster = job.cluster
        with chief:
            first = chief.start("chief", options=options)
            assert first.code() == -signal.SIGKILL, first.log
            again = chief.start("chief", options=options)
            assert again.code() == 0, again.log
        job.all_end_well()
    report = json.loads(Path(options["report"]).read_text())
    model = counting()
    expected = model.fit(X, Y, batch_size=32, epochs=3, verbose=0).history
    assert report["steps"] == 24
    assert report["history"]["loss"] == pytest.approx(expected["loss"][1:], rel=1e-4)
    assert report["history"]["examples"] == expected["examples"][1:]
    same(report["weights"], model.get_weights())
