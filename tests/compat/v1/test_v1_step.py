"""The global step, updates, collections and summaries of TensorFlow 1's programs."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster.compat.tensorflow as tf
import muster.compat.tensorflow.compat.v1 as tf1
from muster.program.trace._program import Program


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    outputs = tf1.layers.dense(features, 1)
    loss = tf1.losses.mean_squared_error(labels, outputs)
    tf1.summary.scalar(name="error", tensor=loss)
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    export = {
        tf1.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: tf.estimator.export.PredictOutput({"y": outputs})
    }
    return tf.estimator.EstimatorSpec(
        mode, predictions=outputs, loss=loss, train_op=train_op, export_outputs=export
    )


class RecordStep(tf.estimator.SessionRunHook):  # type: ignore[misc]  # its names are TensorFlow's
    def __init__(self) -> None:
        self.seen: list[int] = []

    def begin(self) -> None:
        self.step = tf1.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        return tf1.train.SessionRunArgs(self.step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(int(run_values.results))


def test_a_hook_asks_for_the_global_step_that_it_got_in_begin(tmp_path: Path) -> None:
    data = np.ones((4, 1), np.float32)
    hook = RecordStep()
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(
        lambda: tf.data.Dataset.from_tensor_slices((data, data)).repeat().batch(2), hooks=[hook], steps=3
    )
    assert hook.seen == [1, 2, 3]


def test_the_global_step_of_a_step_is_its_variable() -> None:
    def step(x: Any) -> dict[str, Any]:
        same = tf1.train.get_global_step() is tf1.train.get_or_create_global_step()
        return {"same": jnp.bool_(same)}

    assert outputs_of(step)["same"]


@pytest.mark.parametrize("estimator", [tf.estimator, tf1.estimator])
def test_what_an_export_returns_has_its_names(estimator: Any) -> None:
    export = estimator.export
    for made in (export.PredictOutput(1), export.ClassificationOutput(scores=1), export.RegressionOutput(1)):
        assert isinstance(made, export.ExportOutput)
    # The name by which EstimatorSpec finds the output that is served.
    spec = estimator.EstimatorSpec("infer", predictions={"y": jnp.ones(2)})
    assert list(spec.export_outputs) == [tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
    constants = tf1.saved_model.signature_constants
    assert constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY == tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@pytest.mark.parametrize("keyword", ["data", "tensor"])
def test_a_summary_takes_its_value_by_either_name(keyword: str) -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        tf1.summary.scalar(name="rate", **{keyword: 2 * x})
        return {}, None

    program = Program(step, jnp.float32(1.0))
    assert program.summaries == {"rate": "rate"}
    assert float(program.step(program.initial, jnp.float32(1.0))[1]["rate"]) == 2.0


@pytest.mark.parametrize("values", [{}, {"data": 1.0, "tensor": 1.0}])
def test_a_summary_of_no_value_or_of_two_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(TypeError, match="'rate' needs one value"):
        tf1.summary.scalar("rate", **values)


def test_assignments_return_the_new_value() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        with tf.name_scope("counts"):
            seen = tf.Variable(1.0, trainable=False, name="seen")
        with tf1.name_scope(None, default_name="rest"):
            other = tf.Variable(0.0, trainable=False, name="other")
        return {"sum": tf1.assign_add(seen, 2 * x), "set": tf1.assign(other, 7)}, None

    program = Program(step, jnp.float32(1.0))
    state, outputs = program.step(program.initial, jnp.float32(1.0))
    assert (float(outputs["sum"]), float(outputs["set"])) == (3.0, 7.0)
    assert {path: float(value) for path, value in state.items()} == {"counts/seen": 3.0, "rest/other": 7.0}


def test_zeros_and_ones_initialize() -> None:
    assert float(tf1.zeros_initializer()(())) == 0.0
    assert float(tf1.ones_initializer()(())) == 1.0


@pytest.mark.parametrize(("module", "name"), [(tf, "tf.Sesion"), (tf1, "tf.compat.v1.Sesion")])
def test_a_name_that_is_not_there_leads_to_the_page_about_it(module: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=f'muster has no {name}. The page "Coming from TensorFlow"'):
        _ = module.Sesion
    assert not hasattr(module, "Session")


def test_unknown_collections_are_refused() -> None:
    with pytest.raises(ValueError, match="no collection 'losses'"):
        tf1.get_collection("losses")
