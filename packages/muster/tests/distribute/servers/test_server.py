"""Servers of several tasks in one process, on loopback: a job in a notebook, and what is refused."""

import contextlib
import socket
import threading

import numpy as np
import pytest

import muster
from muster._errors import (
    AddressInUseError,
    ClusterError,
    NanLossDuringTrainingError,
    ParameterServerError,
    StrayPeerError,
)
from muster._keras import keras
from muster.cluster import ClusterSpec, Task
from muster.cluster.roster import query_status
from muster.data import Dataset
from muster.distribute import AsynchronousStrategy, Server
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

SECRET = "a secret that only tests know"
ANYWHERE = {"chief": ["localhost:0"], "ps": ["localhost:0"]}
X = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def model_fn(features, labels, mode):
    outputs = keras.layers.Dense(1)(keras.layers.Dense(8)(features))
    loss = keras.ops.mean((outputs - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.Adam(0.02), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(folder, features=X, hooks=(), steps_per_execution=1):
    config = RunConfig(tf_random_seed=1, save_checkpoints_steps=10, steps_per_execution=steps_per_execution)
    estimator = Estimator(model_fn, folder, config)
    estimator.train(lambda: Dataset.from_tensor_slices((features, Y)).batch(16).repeat(), hooks, max_steps=20)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def address(server):
    return server.target.removeprefix("grpc://")


@contextlib.contextmanager
def job(servers=2):
    """The parameter servers of a job and its chief, each a Server of this process."""
    with contextlib.ExitStack() as opened:
        cluster = {"chief": ["localhost:0"], "ps": ["localhost:0"] * servers}
        ps = [opened.enter_context(Server(cluster, "ps", index)) for index in range(servers)]
        cluster["ps"] = [*map(address, ps)]
        yield ps, opened.enter_context(Server(cluster, "chief"))


class Steps(SessionRunHook):
    def __init__(self):
        self.count = 0

    def after_run(self, run_context, run_values):
        self.count += 1


def test_servers_in_one_process_train_an_estimator(tmp_path):
    with job() as (servers, chief):
        joins = [threading.Thread(target=server.join) for server in servers]
        for join in joins:
            join.start()
        strategy = AsynchronousStrategy(chief, starts=True)
        with contextlib.closing(strategy), strategy.scope():
            values = trained(tmp_path / "served")
            strategy.end()
        for join in joins:
            join.join()
    assert values["global_step"] == 20
    for name, value in trained(tmp_path / "one").items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_local_server_is_the_only_task_of_its_cluster():
    with Server.create_local_server() as server:
        assert server.target.startswith("grpc://localhost:")
        assert not server.target.endswith(":0")
        server.start()  # does nothing more
        with pytest.raises(ClusterError, match="at least one ps"):
            server.connect(starts=True)
    waiting = Server.create_local_server(start=False)
    assert waiting.target == "grpc://localhost:0"
    with pytest.raises(RuntimeError, match="Start the server first"):
        waiting.connect(starts=True)


@pytest.mark.samples("1")
@pytest.mark.parametrize("steps_per_execution", [1, 5])
def test_others_make_the_step_of_a_worker_whose_loss_is_nan(tmp_path, steps_per_execution):
    features = X.copy()
    features[2 * 16] = np.nan  # in the third batch
    with job(servers=1) as (_, chief):
        strategy = AsynchronousStrategy(chief, starts=True)
        with (
            contextlib.closing(strategy),
            strategy.scope(),
            pytest.raises(NanLossDuringTrainingError),
        ):
            trained(tmp_path / "first", features, (), steps_per_execution)
        # As another process of this task would: of the same server, on other connections.
        strategy, steps = AsynchronousStrategy(chief, starts=True), Steps()
        with contextlib.closing(strategy), strategy.scope():
            values = trained(tmp_path / "second", hooks=[steps])
    assert values["global_step"] == 20
    assert steps.count == 18
    assert all(np.isfinite(value).all() for value in values.values())


def test_training_goes_on_when_it_is_called_again(tmp_path):
    with job() as (_, chief):
        strategy = AsynchronousStrategy(chief, starts=True)
        with contextlib.closing(strategy), strategy.scope():
            for _ in range(2):
                estimator = Estimator(model_fn, tmp_path)
                estimator.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(16).repeat(), steps=5)
            strategy.end()
    assert estimator.get_variable_value("global_step") == 10


class EndOfJob(SessionRunHook):
    """Ends the job as the chief does, after a step of this worker."""

    def __init__(self, chief, step):
        self.chief, self.step = chief, step

    def after_run(self, run_context, run_values):
        if run_context.session.global_step == self.step:
            self.chief.end()


@pytest.mark.parametrize(("step", "epochs"), [(0, None), (5, None), (4, 1)])
def test_a_worker_stops_when_the_chief_ends_the_job(tmp_path, step, epochs):
    config = RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None)
    with job() as (_, server):
        strategy = AsynchronousStrategy(server, starts=bool(step))
        if not step:
            with contextlib.closing(AsynchronousStrategy(server, starts=True)) as chief:
                chief.end()
        with contextlib.closing(strategy) as chief, strategy.scope():
            hooks = [EndOfJob(chief, step), steps := Steps()]
            Estimator(model_fn, tmp_path, config).train(
                lambda: Dataset.from_tensor_slices((X, Y)).batch(16).repeat(epochs), hooks, max_steps=20
            )
    assert steps.count == step


class Watcher(SessionRunHook):
    """Looks for the step of the others before the first one, and again when the chief has ended the job."""

    def __init__(self, chief, serving):
        self.chief, self.serving = chief, serving

    def before_run(self, run_context):
        look_up_step = run_context.session.look_up_step
        assert look_up_step() == 0
        with contextlib.closing(AsynchronousStrategy(self.chief, starts=True)) as ending:
            ending.end()
        assert self.serving.is_alive()  # until the worker has heard of it
        assert look_up_step() is None
        self.serving.join(20)
        assert not self.serving.is_alive()


def test_a_worker_that_waits_for_a_step_hears_of_the_end_of_the_job(tmp_path):
    cluster = {**ANYWHERE, "worker": ["localhost:0"]}
    with Server(cluster, "ps") as server:
        cluster["ps"] = [address(server)]
        with Server(cluster, "chief") as chief, Server(cluster, "worker") as worker:
            serving = threading.Thread(target=server.join)
            serving.start()
            strategy = AsynchronousStrategy(worker, starts=False)
            config = RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None)
            with contextlib.closing(strategy), strategy.scope():
                Estimator(model_fn, tmp_path, config).train(
                    lambda: Dataset.from_tensor_slices((X, Y)).batch(16),
                    [Watcher(chief, serving), steps := Steps()],
                    max_steps=20,
                )
    assert steps.count == 0


def test_code_that_runs_eagerly_does_not_train_apart_from_the_servers(tmp_path):
    with job(servers=1) as (_, chief):
        strategy = AsynchronousStrategy(chief, starts=True)
        muster.config.run_functions_eagerly(True)
        try:
            with strategy.scope(), pytest.raises(ValueError, match="on parameter servers. Unset TF_CONFIG"):
                trained(tmp_path)
        finally:
            muster.config.run_functions_eagerly(False)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_port_0_is_any_free_one(host):
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host.strip("[]"), 0), family=family).close()
    except OSError as exc:
        pytest.skip(f"This host has no {host}: {exc}")
    with Server({"worker": [f"{host}:0"]}) as one, Server({"worker": [f"{host}:0"]}) as other:
        assert one.target.startswith(f"grpc://{host}:")
        assert one.target != other.target
        assert query_status(address(one), 10.0).task == Task("worker", 0)


@pytest.mark.parametrize(
    ("cluster", "arguments", "missing"),
    [(ANYWHERE, (), "job_name"), ({"ps": ["localhost:0", "localhost:1"]}, ("ps",), "task_index")],
)
def test_a_task_must_be_named_unless_it_is_the_only_one(cluster, arguments, missing):
    with pytest.raises(ValueError, match=f"Must specify an explicit `{missing}`"):
        Server(ClusterSpec(cluster), *arguments)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"worker": ["localhost:0"]}, "There must be at least one ps"),
        ({"worker": ["localhost:0"], "ps": []}, "There must be at least one ps"),
        (
            {"worker": ["localhost:0"], "ps": ["localhost:1"], "chief": ["localhost:2", "localhost:3"]},
            "There must be at most one 'chief' job",
        ),
    ],
)
def test_a_cluster_that_cannot_train_is_refused_with_the_remedy(cluster, says):
    with Server(cluster, "worker") as worker, pytest.raises(ClusterError, match=says):
        AsynchronousStrategy(worker, starts=False)


@pytest.mark.parametrize(("max_staleness", "error"), [(-1, ValueError), (0.5, TypeError)])
def test_a_wrong_staleness_is_refused(max_staleness, error):
    with Server({"worker": ["localhost:0"], "ps": ["localhost:1"]}, "worker") as worker:
        with pytest.raises(error, match="max_staleness"):
            AsynchronousStrategy(worker, starts=False, max_staleness=max_staleness)


def refused(worker, error, says, tmp_path):
    strategy = AsynchronousStrategy(worker, starts=True)
    with contextlib.closing(strategy), strategy.scope(), pytest.raises(error, match=says):
        trained(tmp_path)


def test_a_task_of_another_job_is_told_so(tmp_path):
    with Server(ANYWHERE, "ps") as server:
        cluster = {"chief": ["127.0.0.1:0"], "ps": [address(server)]}
        with Server(cluster, "chief") as chief:
            refused(chief, ParameterServerError, "it is of job .* Give all tasks the same cluster", tmp_path)


def test_a_task_with_another_number_of_servers_is_told_so(tmp_path):
    with job() as (servers, chief):
        strategy = AsynchronousStrategy(chief, starts=True)
        with contextlib.closing(strategy), strategy.scope():
            trained(tmp_path / "both")
        with Server(ANYWHERE | {"ps": [address(servers[0])]}, "chief") as fewer:
            says = "it is for ps 0 of 1 in all, and this is ps 0 of 2. Run .* the same cluster in TF_CONFIG"
            refused(fewer, ParameterServerError, says, tmp_path / "one")


def test_a_server_whose_address_is_taken_leaves_nothing_open():
    with Server(ANYWHERE, "ps") as server, pytest.raises(AddressInUseError, match="cannot listen"):
        Server(ANYWHERE | {"ps": [address(server)]}, "ps")


def test_a_task_without_the_secret_brings_no_plan(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr("muster.distribute.servers._build_server.JaxDevice.compile", compiled.append)
    monkeypatch.setenv("MUSTER_SECRET", SECRET)
    with Server(ANYWHERE, "ps") as server:
        cluster = ANYWHERE | {"ps": [address(server)]}
        for secret, says in ((None, "this task has one"), (SECRET[::-1], "another secret")):
            monkeypatch.delenv("MUSTER_SECRET", raising=False)
            if secret is not None:
                monkeypatch.setenv("MUSTER_SECRET", secret)
            with Server(cluster, "chief") as chief:
                refused(chief, StrayPeerError, rf"ps 0 at .*{says}.*Give all tasks", tmp_path)
    assert not compiled


def test_without_a_secret_a_server_that_others_reach_warns(caplog):
    Server(ANYWHERE, "ps").close()
    assert "it has no secret" not in caplog.text
    Server(ANYWHERE | {"chief": ["10.1.2.3:0"]}, "ps").close()
    assert caplog.text.count("it has no secret") == 1
