"""RunConfig, the rules of model_dir, model_fn arguments, and roles behave as TensorFlow's did."""

import json
import logging
import os
import pathlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from estimator_departures import LEFT_OUT, RUN_CONFIG

import recorded
from muster import MusterError
from muster._errors import ClusterError
from muster.cluster import ClusterResolver, ClusterSpec, SimpleClusterResolver
from muster.distribute import (
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    ParameterServerStrategyV1,
)
from muster.distribute.workers import Exchanged
from muster.estimator._model_fn import argument_names, call_input_fn, call_model_fn, check_model_fn_args
from muster.estimator._run_config import (
    DistributeConfig,
    RunConfig,
    check_train_args,
    check_workers,
    resolve_config,
)
from muster.estimator._specs import EvalSpec, TrainSpec
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener
from muster.estimator.loop._setup import strategy_for
from muster.estimator.roles._train_and_evaluate import TrainingExecutor, train_and_evaluate


class CallableWithOp:
    def __call__(self, op: Any) -> None: ...


class FsPath(os.PathLike[str]):
    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


class ConfigProto:
    """What TensorFlow's session_config is made of."""


def function(args: list[str]) -> Any:
    """Return a function with these arguments."""
    scope: dict[str, Any] = {}
    exec(f"def canned_fn({', '.join(args)}): pass", scope)
    return scope["canned_fn"]


OBJECTS = {
    "OneDeviceStrategy": lambda: OneDeviceStrategy("/cpu:0"),
    "callable_with_op": CallableWithOp,
    "ConfigProto": ConfigProto,
}
MAKERS = {
    "$path": pathlib.PurePosixPath,
    "$fspath": FsPath,
    "$int64": np.int64,
    "$fn": function,
    "$object": lambda name: OBJECTS[name](),
    "$distribute_config": lambda kwargs: DistributeConfig(**kwargs),
    "$run_config": lambda kwargs: RunConfig(**kwargs),
}
NO_SESSIONS = "session_config has no effect: JAX has no sessions."
DERIVED = (
    "task_type",
    "task_id",
    "is_chief",
    "num_worker_replicas",
    "num_ps_replicas",
    "master",
    "evaluation_master",
    "global_id_in_cluster",
    "model_dir",
    "service",
)
FIELDS = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "protocol",
    "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs",
    "checkpoint_save_graph_def",
)


def observed(config: RunConfig, kinds: list[str]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    if "derived" in kinds:
        seen |= {name: getattr(config, name) for name in DERIVED}
        seen["cluster_spec"] = config.cluster_spec.as_dict()
    if "fields" in kinds:
        seen |= {name: getattr(config, name) for name in FIELDS}
        seen["session_config_is_none"] = config.session_config is None
        seen["device_fn_is_none"] = config.device_fn is None
    if "strategy" in kinds:
        for name in ("train_distribute", "eval_distribute"):
            strategy = getattr(config, name)
            seen[name] = None if strategy is None else type(strategy).__name__
    return seen


def check_value(seen: dict[str, Any], expect: dict[str, Any]) -> None:
    value = recorded.decode(expect["value"], MAKERS)
    value = {key: each for key, each in value.items() if key not in LEFT_OUT}
    recorded.check_same({key: seen[key] for key in value} if expect.get("partial") else seen, value)


def check_logs(caplog: pytest.LogCaptureFixture, expect: dict[str, Any]) -> None:
    if "logs" in expect:
        said = [[record.levelname, record.getMessage()] for record in caplog.records]
        # TensorFlow has sessions, and says nothing here.
        seen = [each for each in said if each != ["WARNING", NO_SESSIONS]]
        wanted = []
        for level, message in expect["logs"]:
            # muster has no Distribute Coordinator, and its workers do not wait for the chief.
            if message == "Not using Distribute Coordinator." or message.startswith("Waiting "):
                continue
            wanted.append([level, message.replace("Tensorflow server", "muster server")])
        assert len(seen) == len(wanted), f"{seen} is not {wanted}"
        for (level, message), (other_level, other) in zip(seen, wanted, strict=True):
            assert level == other_level
            assert recorded.same_text(message, other), f"{message!r} is not {other!r}"


@pytest.fixture(autouse=True)
def _no_tf_config(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    caplog.set_level(logging.INFO, "muster")


def set_env(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in case["input"].get("env", {}).items():
        monkeypatch.setenv(name, value)


def of(*ops: str) -> Any:
    return lambda case: case["input"]["op"] in ops


@pytest.mark.parametrize("case", recorded.cases("run_config", of("construct", "replace"), RUN_CONFIG))
def test_config(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_env(case, monkeypatch)
    asked, expect = case["input"], case["expect"]
    kwargs = recorded.decode(asked.get("kwargs") or {}, MAKERS)
    kinds = asked["observe"]

    def build() -> RunConfig:
        config = RunConfig(**kwargs)
        if asked["op"] == "construct":
            return config
        before = observed(config, kinds)
        replaced = config.replace(**recorded.decode(asked["replace"], MAKERS))
        assert observed(config, kinds) == before
        assert replaced is not config
        return replaced

    if "error" in expect:
        with pytest.raises((ValueError, TypeError)) as raised:
            build()
        recorded.check_error(expect["error"], raised.value)
    else:
        check_value(observed(build(), kinds), expect)
        check_logs(caplog, expect)


@pytest.mark.parametrize("case", recorded.cases("run_config", of("estimator"), RUN_CONFIG))
def test_model_dir_of_an_estimator(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from muster.estimator import Estimator

    set_env(case, monkeypatch)
    expect = case["expect"]
    kwargs = recorded.decode(case["input"].get("kwargs") or {}, MAKERS)
    given = kwargs.get("config")
    caplog.clear()
    if "error" in expect:
        with pytest.raises((ValueError, TypeError)) as raised:
            Estimator(function(["features", "labels", "mode"]), **kwargs)
        recorded.check_error(expect["error"], raised.value)
        return
    estimator = Estimator(function(["features", "labels", "mode"]), **kwargs)
    value = {
        "model_dir": estimator.model_dir,
        "config_model_dir": estimator.config.model_dir,
        "config_is_same_object": estimator.config is given,
        "given_config_model_dir": None if given is None else given.model_dir,
        "eval_dir": estimator.eval_dir(),
        "eval_dir_named": estimator.eval_dir("x"),
        "latest_checkpoint": estimator.latest_checkpoint(),
    }
    if expect["value"]["model_dir"] == "<temporary>":
        temporary = estimator.model_dir
        assert pathlib.Path(temporary).is_dir()
        value = {
            key: each.replace(temporary, "<temporary>") if isinstance(each, str) else each
            for key, each in value.items()
        }
        for record in caplog.records:
            record.msg, record.args = record.getMessage().replace(temporary, "<temporary>"), ()
        pathlib.Path(temporary).rmdir()
    recorded.check_same(value, expect["value"])
    check_logs(caplog, expect)


@pytest.mark.parametrize("case", recorded.cases("run_config", of("model_fn_args"), RUN_CONFIG))
def test_model_fn_arguments(
    case: dict[str, Any], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    from muster.estimator import Estimator

    expect = case["expect"]
    model_fn = recorded.decode(case["input"]["model_fn"], MAKERS)
    params = case["input"]["params"]
    config = RunConfig(model_dir=str(tmp_path))
    if "error" in expect:
        with pytest.raises(ValueError, match=".") as raised:
            Estimator(model_fn, params=params, config=config)
        recorded.check_error(expect["error"], raised.value)
    else:
        recorded.check_same(
            {"params": Estimator(model_fn, params=params, config=config).params}, expect["value"]
        )
        check_logs(caplog, expect)


@pytest.mark.parametrize("case", recorded.cases("run_config", of("train_on"), RUN_CONFIG))
def test_arguments_of_train(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    from muster.estimator import Estimator

    set_env(case, monkeypatch)
    estimator = Estimator(function(["features", "labels", "mode"]), model_dir=str(tmp_path))
    with pytest.raises(ValueError, match=".") as raised:
        estimator.train(lambda: None, **case["input"]["kwargs"])
    recorded.check_error(case["expect"]["error"], raised.value)


class FakeEstimator:
    """Records how it is told to train."""

    model_dir = "/m"

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.train_calls: list[dict[str, Any]] = []

    def train(self, input_fn: Any, *, max_steps: Any, hooks: Any, saving_listeners: Any) -> None:
        self.train_calls.append(
            {"max_steps": max_steps, "n_hooks": len(hooks), "n_saving_listeners": len(saving_listeners)}
        )

    def evaluate(self, input_fn: Any, *, steps: Any, hooks: Any, checkpoint_path: Any, name: Any) -> None:
        raise AssertionError("not to be called")

    def latest_checkpoint(self) -> None:
        return None


class FakeServer:
    def __init__(self, config: RunConfig) -> None:
        self.log: dict[str, Any] = {
            "job_name": config.task_type,
            "task_index": config.task_id,
            "protocol": config.protocol,
            "cluster": config.cluster_spec.as_dict(),
        }

    def start(self) -> None:
        self.log["started"] = True

    def join(self) -> None:
        self.log["joined"] = True

    def connect(self, *, starts: bool) -> SimpleNamespace:
        return SimpleNamespace(count=1, end=lambda: None, close=lambda: None, exchanged=Exchanged())

    roster = None

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


SPECS = TrainSpec(lambda: None, max_steps=10), EvalSpec(lambda: None)


@pytest.mark.parametrize("case", recorded.cases("run_config", of("dispatch"), RUN_CONFIG))
def test_dispatch_on_the_role(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    set_env(case, monkeypatch)
    called: list[str] = []

    class Recorder(TrainingExecutor):
        """Records which role was asked for."""

    for role in ("local", "chief", "master", "worker", "ps", "evaluator"):
        monkeypatch.setattr(
            Recorder, f"run_{role}", lambda self, role=role: called.append(f"run_{role}"), raising=False
        )
    executor = Recorder(FakeEstimator(RunConfig()), *SPECS)
    if "error" in case["expect"]:
        with pytest.raises(ValueError, match=".") as raised:
            executor.run()
        recorded.check_error(case["expect"]["error"], raised.value)
    else:
        returned = executor.run()
        value = {"called": called, "returned_the_result": returned is not None}
        recorded.check_same(value, case["expect"]["value"])


@pytest.mark.parametrize("role", ["chief", "master", "worker", "ps", "evaluator"])
def test_every_role_returns_a_pair(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {"master": ["a:1"]} if role == "master" else {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": role, "index": 0}}))
    called: list[str] = []
    monkeypatch.setattr(TrainingExecutor, f"run_{role}", lambda self: called.append(role))
    metrics, exports = train_and_evaluate(FakeEstimator(RunConfig()), *SPECS)
    assert (called, metrics, exports) == ([role], None, None)


@pytest.mark.parametrize("case", recorded.cases("run_config", of("start"), RUN_CONFIG))
def test_start_of_a_task(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_env(case, monkeypatch)
    estimator = FakeEstimator(RunConfig(**case["input"]["kwargs"]))
    servers: list[FakeServer] = []

    def make_server(config: RunConfig) -> FakeServer:
        servers.append(FakeServer(config))
        return servers[-1]

    executor = TrainingExecutor(estimator, *SPECS, make_server=make_server)
    caplog.clear()
    if "error" in case["expect"]:
        with pytest.raises(RuntimeError, match=".") as raised:
            executor.run()
        recorded.check_error(case["expect"]["error"], raised.value)
        return
    expected = dict(case["expect"]["value"])
    expected.pop("slept")  # see LEFT_OUT
    value = {
        "servers": [server.log for server in servers],
        "train_calls": estimator.train_calls,
        "returned": executor.run(),
    }
    value["servers"] = [server.log for server in servers]
    recorded.check_same(value, expected)
    check_logs(caplog, case["expect"])


def test_every_departure_is_of_use() -> None:
    assert recorded.unused("run_config", RUN_CONFIG) == []


def test_tasks_that_cannot_reach_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TF_CONFIG",
        '{"cluster": {"master": ["m:1"], "worker": ["w:1"]}, "task": {"type": "worker", "index": 0}}',
    )
    estimator = FakeEstimator(RunConfig())
    told = (
        "worker 0 cannot train together with the 1 other tasks of its cluster: there are no parameter servers"
    )
    with pytest.raises(MusterError, match=told):
        TrainingExecutor(estimator, *SPECS).run()
    assert not estimator.train_calls


def test_a_second_evaluator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TF_CONFIG", '{"cluster": {"chief": ["c:1"]}, "task": {"type": "evaluator", "index": 1}}'
    )
    with pytest.raises(ValueError, match="can only be one `evaluator` task"):
        TrainingExecutor(FakeEstimator(RunConfig()), *SPECS).run()


def test_a_config_is_frozen_and_has_keyword_arguments() -> None:
    config = RunConfig(save_checkpoints_steps=3.0)
    assert config.save_checkpoints_steps == 3
    assert isinstance(config.save_checkpoints_steps, int)
    with pytest.raises(AttributeError):
        config.save_checkpoints_steps = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        RunConfig("/m", 1)  # type: ignore[misc]
    assert RunConfig("/m") == RunConfig(model_dir="/m")
    assert config == RunConfig(save_checkpoints_steps=3)
    assert config.replace(save_checkpoints_secs=5) == RunConfig(save_checkpoints_secs=5)


def test_a_number_that_is_none_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="save_summary_steps must be a number, given: '3'"):
        RunConfig(save_summary_steps="3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="steps must be a number, given: '3'"):
        check_train_args(RunConfig(), "3", None)


@pytest.mark.parametrize(
    ("servers", "named"), [(1, "the parameter server of the cluster is"), (2, "the 2 parameter servers")]
)
def test_a_chief_that_leaves_servers_out_says_so(
    servers: int, named: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = {"chief": ["h:1"], "ps": [f"h:{2 + number}" for number in range(servers)]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}))
    check_workers(RunConfig(), strategy_for(None))
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert f"trains in this process alone, chief 0: {named}" in record.getMessage()
    assert "call train_and_evaluate(estimator, " in record.getMessage()
    monkeypatch.delenv("TF_CONFIG")
    caplog.clear()
    check_workers(RunConfig(), strategy_for(None))
    assert not caplog.records


def test_a_path_serves_as_model_dir(tmp_path: pathlib.Path) -> None:
    config = resolve_config(RunConfig(model_dir=tmp_path), tmp_path)
    assert config.model_dir == str(tmp_path)
    assert config.cluster_spec == ClusterSpec({})


def test_input_fn_gets_the_arguments_that_it_names() -> None:
    config = RunConfig()

    class Input:
        def __call__(self, mode: Any, *, input_context: Any) -> Any:
            return mode, input_context

    import functools

    assert call_input_fn(Input(), "train", {}, config, 7) == ("train", 7)  # type: ignore[arg-type]
    assert call_input_fn(lambda: 3, "train", {}, config) == 3  # type: ignore[arg-type]
    assert call_input_fn(lambda params, **others: (params, others), "train", {"a": 1}, config) == (  # type: ignore[arg-type]
        {"a": 1},
        {},
    )
    assert argument_names(functools.partial(lambda mode, params: 0, params=1)) == ("mode",)


def test_what_a_model_fn_takes_and_returns_is_checked() -> None:
    config = RunConfig()
    with pytest.raises(ValueError, match="does not include params argument"):
        check_model_fn_args(lambda features: None, {"a": 1})
    with pytest.raises(ValueError, match="model_fn does not take labels"):
        call_model_fn(lambda features: None, 1, 2, "train", {}, config)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="should return an EstimatorSpec"):
        call_model_fn(lambda features, labels: 0, 1, 2, "train", {}, config)  # type: ignore[arg-type]


CLUSTER = ClusterSpec({"worker": ["w0:1", "w1:1"]})


class Resolved(MirroredStrategy):
    """A strategy that was built with a resolver."""

    def __init__(self, **task: Any) -> None:
        super().__init__(["/cpu:0"])
        self._resolver = SimpleClusterResolver(CLUSTER, **task)

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver


def test_the_cluster_is_the_one_that_the_strategy_was_built_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"service": {"k": 1}, "model_dir": "there"}')
    config = RunConfig(train_distribute=Resolved(task_type="worker", task_id=1))
    assert config.cluster_spec == CLUSTER
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.num_worker_replicas, config.global_id_in_cluster) == (2, 1)
    assert (config.service, config.model_dir) == ({"k": 1}, "there")
    assert RunConfig(train_distribute=Resolved(task_type="worker", task_id=0)).is_chief
    with pytest.raises(ClusterError, match="5 is not a valid task_id for task_type worker"):
        RunConfig(train_distribute=Resolved(task_type="worker", task_id=5))


def test_the_tasks_are_those_of_whatever_has_started_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2")
    monkeypatch.setenv("SKYPILOT_NODE_RANK", "1")
    config = RunConfig()
    assert config.cluster_spec.as_dict() == {"worker": ["10.0.0.1:8888", "10.0.0.2:8888"]}
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)


def test_an_evaluator_may_be_one_by_its_resolver() -> None:
    resolver = SimpleClusterResolver(CLUSTER, task_type="evaluator", task_id=0)
    strategy = MultiWorkerMirroredStrategy(resolver)
    assert strategy.cluster_resolver is resolver
    config = RunConfig(train_distribute=strategy)
    assert (config.task_type, config.is_chief, config.num_worker_replicas) == ("evaluator", False, 0)


@pytest.mark.parametrize(("index", "starts", "listeners"), [(0, True, 1), (1, False, 0)])
def test_worker_0_is_the_chief_of_parameter_servers_that_a_strategy_names(
    index: int, starts: bool, listeners: int
) -> None:
    cluster = ClusterSpec({"worker": ["w0:1", "w1:1"], "ps": ["p:1"]})
    resolver = SimpleClusterResolver(cluster, task_type="worker", task_id=index)
    config = RunConfig(train_distribute=ParameterServerStrategyV1(resolver))
    assert (config.is_chief, config.num_worker_replicas, config.num_ps_replicas) == (starts, 2, 1)
    asked = []

    class Server(FakeServer):
        def connect(self, *, starts: bool) -> SimpleNamespace:
            asked.append(starts)
            return super().connect(starts=starts)

    estimator = FakeEstimator(config)
    spec = TrainSpec(lambda: None, max_steps=10, saving_listeners=[CheckpointSaverListener()])
    TrainingExecutor(estimator, spec, SPECS[1], make_server=Server).run()
    assert asked == [starts]
    assert [call["n_saving_listeners"] for call in estimator.train_calls] == [listeners]


def test_max_staleness_is_given_once() -> None:
    strategy = ParameterServerStrategyV1(max_staleness=2)
    assert RunConfig(max_staleness=2, train_distribute=strategy).max_staleness == 2
    config = RunConfig(train_distribute=strategy)
    assert config.replace(train_distribute=ParameterServerStrategyV1(max_staleness=3)).max_staleness is None
    with pytest.raises(ValueError, match="max_staleness is 1 in RunConfig, and 2 in its train_distribute"):
        config.replace(max_staleness=1)
    with pytest.raises(ValueError, match=r"max_staleness should be >= 0, given: -1\."):
        RunConfig(max_staleness=-1)
    with pytest.raises(ValueError, match="max_staleness must be an integer"):
        RunConfig(max_staleness=0.5)


def test_a_session_config_is_kept_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    given = ConfigProto()
    config = resolve_config(RunConfig(session_config=given), "somewhere")
    assert config.session_config is given
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        NO_SESSIONS
    ]


@pytest.mark.parametrize("period", ["save_checkpoints_steps", "save_checkpoints_secs"])
def test_clearing_one_period_of_checkpoints_keeps_the_other(period: str) -> None:
    (other,) = {"save_checkpoints_steps", "save_checkpoints_secs"} - {period}
    config = RunConfig(**{period: 2})
    assert getattr(config.replace(**{other: None}), period) == 2
    assert getattr(config.replace(**{period: None, other: 3}), other) == 3
    assert getattr(config.replace(**{other: 3}), period) is None
    assert getattr(config.replace(**{period: None}), period) is None
