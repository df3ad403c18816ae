"""TrainSpec, EvalSpec, EstimatorSpec and their checks behave as TensorFlow's did."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimator_departures import SPECS
from jax.experimental import sparse

import recorded
from muster._keras import keras
from muster.estimator import CheckpointSaverListener, SessionRunHook
from muster.estimator._estimator_spec import (
    ClassificationOutput,
    EstimatorSpec,
    ExportOutput,
    ModeKeys,
    ModelSetup,
    PredictOutput,
    RegressionOutput,
)
from muster.estimator._run_config import RunConfig
from muster.estimator._specs import EvalSpec, TrainSpec
from muster.estimator.exporters._exporter import Exporter
from muster.estimator.roles._continuous_eval import EvalResult
from muster.estimator.roles._train_and_evaluate import train_and_evaluate
from muster.program import TrainOp


class CannedHook(SessionRunHook):
    def __repr__(self) -> str:
        return "<CannedHook>"


class CannedListener(CheckpointSaverListener):
    def __repr__(self) -> str:
        return "<CannedListener>"


class DuckHook:
    """Has a hook's methods but not its base class."""

    begin = after_create_session = before_run = after_run = end = SessionRunHook.begin

    def __repr__(self) -> str:
        return "<DuckHook>"


class NamedExporter(Exporter):
    def __init__(self, name: Any) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def export(self, *args: Any, **kwargs: Any) -> None: ...


class CallableObject:
    def __call__(self) -> None: ...


def input_fn() -> None: ...


OBJECTS = {
    "input_fn": lambda: input_fn,
    "callable_object": CallableObject,
    "hook": CannedHook,
    "base_hook": SessionRunHook,
    "hook_class": lambda: CannedHook,
    "duck_hook": DuckHook,
    "listener": CannedListener,
    "listener_class": lambda: CannedListener,
    "no_op": lambda: TrainOp("no_op"),
    "variable_read_op": lambda: keras.Variable(1.0),
    "placeholder_1": lambda: jnp.zeros((1,)),
    "sparse_tensor": lambda: sparse.BCOO.fromdense(jnp.ones(1)),
    "metric_pair": lambda: (jnp.zeros(()), jnp.zeros(())),
    "keras_metric_fresh": lambda: keras.metrics.Mean(name="mean_metric"),
    "Scaffold": ModelSetup,
}
MAKERS = {
    "$object": lambda name: OBJECTS[name](),
    "$int64": np.int64,
    "$tensor": lambda value: jnp.asarray(value, "float32"),
    "$exporter": NamedExporter,
    "$predict_output": PredictOutput,
    "$regression_output": RegressionOutput,
    "$classification_output": ClassificationOutput,
}
CLASSES = {
    "TrainSpec": TrainSpec,
    "EvalSpec": EvalSpec,
    "EstimatorSpec": EstimatorSpec,
    "_EvalResult": EvalResult,
}


def shown(value: Any) -> Any:
    """Return a part of a spec in the form in which the oracle has it."""
    match value:
        case TrainOp() | keras.Variable():
            return {"kind": "operation"}
        case Exporter():
            return {"kind": "exporter", "name": value.name}
        case ModelSetup():
            return {"kind": "Scaffold"}
        case SessionRunHook() | CheckpointSaverListener() | ExportOutput():
            return {"kind": type(value).__name__}
        case jax.Array():
            return {"kind": "tensor", "shape": list(value.shape)}
        case keras.metrics.Metric():
            return {"kind": "metric"}
        case dict():
            return {key: shown(each) for key, each in value.items()}
        case tuple() | list():
            return type(value)(map(shown, value))
    return {"kind": "callable"} if callable(value) else value


def check_spec(spec: Any, expect: dict[str, Any]) -> None:
    wanted = recorded.decode(expect["value"], MAKERS)
    seen = {key: shown(each) for key, each in spec._asdict().items()}
    recorded.check_same({key: seen[key] for key in wanted} if expect.get("partial") else seen, wanted)
    if "fields" in expect:
        assert list(spec._fields) == expect["fields"]
        assert isinstance(spec, tuple) == expect["is_tuple"]


def specs(case: dict[str, Any]) -> bool:
    return case["input"].get("class") in CLASSES


@pytest.mark.parametrize("case", recorded.cases("specs", specs, SPECS))
def test_spec(case: dict[str, Any]) -> None:
    asked, expect = case["input"], case["expect"]
    build = CLASSES[asked["class"]]
    args = recorded.decode(asked.get("args") or [], MAKERS)
    kwargs = recorded.decode(asked.get("kwargs") or {}, MAKERS)

    def act() -> Any:
        spec = build(*args, **kwargs)
        match asked.get("action"):
            case "set_attribute":
                setattr(spec, asked["field"], asked["to"])
            case "delete_attribute":
                delattr(spec, asked["field"])
            case "_replace":
                return spec._replace(**recorded.decode(asked["replace"], MAKERS))
        return spec

    if "error" in expect:
        with pytest.raises((ValueError, TypeError, AttributeError)) as raised:
            act()
        recorded.check_error(expect["error"], raised.value)
    else:
        spec = act()
        check_spec(spec, expect)
        assert type(spec).__name__ == expect.get("class_after", type(spec).__name__)


@pytest.mark.parametrize(
    "case", recorded.cases("specs", lambda case: case["input"].get("class") == "ModeKeys")
)
def test_mode_keys(case: dict[str, Any]) -> None:
    assert {key.name: key.value for key in ModeKeys} == case["expect"]["value"]
    assert all(key == key.value for key in ModeKeys)


class FakeEstimator:
    """Has all that an Estimator must have."""

    model_dir = "/m"
    config = RunConfig()

    def train(self, *args: Any, **kwargs: Any) -> None: ...

    def evaluate(self, *args: Any, **kwargs: Any) -> None: ...

    def latest_checkpoint(self) -> None: ...


@pytest.mark.parametrize(
    "case", recorded.cases("specs", lambda case: case["input"].get("op") == "train_and_evaluate", SPECS)
)
def test_arguments_of_train_and_evaluate(case: dict[str, Any]) -> None:
    made = {"estimator": FakeEstimator(), "train_spec": TrainSpec(input_fn), "eval_spec": EvalSpec(input_fn)}
    given = case["input"]
    arguments = [
        made.get(given[key], given[key]) if isinstance(given[key], str | None) else given[key]
        for key in ("estimator", "train_spec", "eval_spec")
    ]
    with pytest.raises(TypeError) as raised:
        train_and_evaluate(*arguments)
    recorded.check_error(case["expect"]["error"], raised.value)


def test_an_estimator_spec_takes_what_is_being_traced() -> None:
    def model_fn(x: jax.Array) -> jax.Array:
        spec = EstimatorSpec("train", {"x": x}, x.mean(keepdims=True), TrainOp("sgd"))
        assert spec.loss.shape == ()
        return spec.loss

    assert jax.jit(model_fn)(np.ones((2, 3), "float32")) == 1


@pytest.mark.parametrize("loss", [np.float32(2), np.full((1, 1), 2.0, "float32"), keras.Variable([2.0])])
def test_a_loss_may_be_any_array_of_one_element(loss: Any) -> None:
    spec = EstimatorSpec("eval", loss=loss)
    assert spec.loss.shape == ()
    assert spec.loss == 2


def test_what_is_wrong_with_an_estimator_spec_is_said() -> None:
    with pytest.raises(TypeError, match=r"predictions\[a\] must be Tensor, given: 3"):
        EstimatorSpec("infer", {"a": 3})
    with pytest.raises(ValueError, match="give scores or classes"):
        ClassificationOutput()
    with pytest.raises(TypeError, match="unexpected keyword argument 'los'"):
        EstimatorSpec("eval", loss=np.float32(1))._replace(los=2)


def test_a_whole_float_is_a_number_of_steps() -> None:
    spec = TrainSpec(input_fn, max_steps=1e6)  # type: ignore[arg-type]
    assert spec.max_steps == 1000000
    assert isinstance(spec.max_steps, int)


def test_steps_that_a_division_gives_are_rounded_up() -> None:
    assert TrainSpec(input_fn, max_steps=1000 / 3 * 2).max_steps == 667  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_steps must be finite, given: inf. For no limit, give None"):
        TrainSpec(input_fn, max_steps=math.inf)  # type: ignore[arg-type]


def test_every_departure_is_of_use() -> None:
    assert recorded.unused("specs", SPECS) == []
