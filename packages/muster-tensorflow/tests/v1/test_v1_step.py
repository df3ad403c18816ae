"""The global step, updates, collections and summaries of TensorFlow 1's programs."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster.distribute import MirroredStrategy
from muster.program import Output
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
    assert program.summaries == {"rate": Output("rate")}
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
    assert not hasattr(module, "get_default_session")


def test_collections_hold_what_a_model_fn_adds() -> None:
    def step(x: Any) -> dict[str, Any]:
        assert tf1.get_collection("mine") == []
        tf1.add_to_collection("mine", x)
        tf1.add_to_collections(["mine", "other"], x + 1)
        tf1.get_collection_ref("other").append(x + 2)
        return {key: jnp.stack(tf1.get_collection(key)) for key in ("mine", "other")}

    outputs = outputs_of(step)
    assert outputs["mine"].tolist() == [1, 2]
    assert outputs["other"].tolist() == [2, 3]
    tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, None)  # as in input functions
    assert tf1.get_collection("mine") == []


def test_hooks_find_what_a_model_fn_collects(tmp_path: Path) -> None:
    class Collected(tf.estimator.SessionRunHook):  # type: ignore[misc]
        seen: list[Any] = []

        def before_run(self, run_context: Any) -> Any:
            (doubled,) = tf1.get_default_graph().get_collection("doubled")
            return tf1.train.SessionRunArgs({"doubled": doubled, "step": tf1.train.get_global_step()})

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.seen.append({name: float(value) for name, value in run_values.results.items()})

    def doubling(features: Any, labels: Any, mode: Any) -> Any:
        loss = tf1.reduce_mean(features) * 2.0
        tf1.add_to_collection("doubled", loss * 2)
        train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Collected()])

    data = np.array([[1], [3]], np.float32)
    estimator = tf.estimator.Estimator(doubling, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(data).batch(1))
    assert Collected.seen == [{"doubled": 4, "step": 1}, {"doubled": 12, "step": 2}]
    assert tf1.get_collection("doubled") == []


def test_losses_are_collected() -> None:
    def step(x: Any) -> dict[str, Any]:
        tf1.get_variable("w", [], initializer=tf1.ones_initializer(), regularizer=lambda w: 10 * w)
        tf1.losses.mean_squared_error(x, x + 2)
        tf1.losses.absolute_difference(x, x + 3, loss_collection=None)
        tf1.losses.add_loss(x)
        return {
            "losses": jnp.stack(tf1.losses.get_losses()),
            "total": tf1.losses.get_total_loss(),
            "alone": tf1.losses.get_total_loss(add_regularization_losses=False),
            "named": jnp.stack(tf1.get_collection(tf1.GraphKeys.LOSSES, "mean_squared_error")),
        }

    outputs = outputs_of(step)
    assert outputs["losses"].tolist() == [4, 1]
    assert (float(outputs["total"]), float(outputs["alone"])) == (15, 5)
    assert outputs["named"].tolist() == [4]


def test_variables_have_tensorflows_names() -> None:
    def step(x: Any) -> dict[str, Any]:
        with tf1.variable_scope("generator"):
            tf1.get_variable("w", [])
            tf1.layers.dense(jnp.ones((1, 2)), 3)
        with tf1.variable_scope("discriminator"):
            tf1.layers.dense(jnp.ones((1, 2)), 3)
        with tf1.variable_scope("discriminator", reuse=True):
            tf1.layers.dense(jnp.ones((1, 2)), 3)
        names = [variable.name for variable in tf1.trainable_variables()]
        assert names == [
            *("generator/w:0", "generator/dense/kernel:0", "generator/dense/bias:0"),
            *("discriminator/dense/kernel:0", "discriminator/dense/bias:0"),
        ]
        return {}

    assert outputs_of(step) == {}


def test_an_optimizer_may_be_built_outside() -> None:
    optimizer = tf1.train.MomentumOptimizer(0.5, momentum=0.9)

    def step(x: Any) -> dict[str, Any]:
        w = tf1.get_variable("w", [], initializer=tf1.ones_initializer())
        optimizer.minimize(3.0 * w)
        return {"w": w.value}

    for _ in range(2):
        assert float(outputs_of(step)["w"]) == 1 - 0.5 * 3


def test_moving_averages_follow_variables() -> None:
    def step(x: Any) -> dict[str, Any]:
        w = tf1.get_variable("w", [], initializer=tf1.ones_initializer())
        w.assign(w + 2 * x)
        average = tf1.train.ExponentialMovingAverage(0.75)
        average.apply([w])
        found = average.average(w)
        assert found.path == average.average_name(w) == "w/ExponentialMovingAverage"
        return {"average": found.value}

    assert float(outputs_of(step)["average"]) == 1 + 0.25 * 2


def test_assertions_check_what_is_known() -> None:
    tf1.assert_equal([1, 2], [1, 2])
    with pytest.raises(ValueError, match="x < y did not hold"):
        tf1.assert_less(3, 3, message="Sizes.")
    with pytest.raises(ValueError, match="assertion failed: wrong 1"):
        tf1.Assert(False, ["wrong", 1])
    with pytest.raises(ValueError, match="of rank 2"):
        tf1.assert_rank(np.ones(3), 2)

    def step(x: Any) -> dict[str, Any]:
        with tf1.control_dependencies([tf1.assert_positive(-x), tf1.Assert(x > 5, [x])]):
            return {"x": x}

    assert float(outputs_of(step)["x"]) == 1


def test_graphs_give_handles() -> None:
    with tf1.Graph().as_default() as graph:
        assert graph.get_tensor_by_name("loss:0").name == "loss:0"
    assert tf1.get_default_graph() is tf1.get_default_graph()
    with pytest.raises(AttributeError, match="there is no graph"):
        _ = graph.as_graph_def


def test_hooks_ask_for_the_global_step_by_either_name() -> None:
    for handle in (tf1.train.get_or_create_global_step(), tf1.train.get_global_step()):
        assert handle.name == "global_step"


def test_a_hook_that_a_model_fn_defines_asks_for_its_variables(tmp_path: Path) -> None:
    seen = []

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        outputs = tf1.layers.dense(features, 1)
        loss = tf1.losses.mean_squared_error(labels, outputs)
        mean = tf1.metrics.mean(features)
        found = {"x": features, "y": [outputs]}

        class Seeing(tf1.train.SessionRunHook):  # type: ignore[misc]
            def before_run(self, run_context: Any) -> Any:
                return tf1.train.SessionRunArgs([loss, found, mean])

            def after_run(self, run_context: Any, run_values: Any) -> None:
                seen.append(run_values.results)
                assert later == 1

        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
        hook = Seeing()
        later = 1
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    data = np.arange(4, dtype=np.float32)[:, None]
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices((data, data)).batch(2))
    assert [each[1]["x"].tolist() for each in seen] == [[[0], [1]], [[2], [3]]]
    assert [[float(part) for part in each[2]] for each in seen] == [[0.5, 0.5], [1.5, 1.5]]
    np.testing.assert_allclose(seen[0][0], np.mean((seen[0][1]["y"][0] - data[:2]) ** 2), rtol=1e-5)


def test_averages_and_counts_are_those_of_all_replicas(tmp_path: Path) -> None:
    from muster_tensorflow.python.ops.metrics_impl import _streaming_confusion_matrix

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        weight = tf1.get_variable("w", [1], initializer=tf1.zeros_initializer())
        loss = tf1.losses.mean_squared_error(labels, features * weight)
        counts, update = _streaming_confusion_matrix(labels, features, 2)
        right = (tf1.trace(counts) / tf1.reduce_sum(counts), tf1.trace(update) / tf1.reduce_sum(update))
        train_op = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, tf1.train.get_global_step())
        averages = tf1.train.ExponentialMovingAverage(0.5)
        train_op = tf1.group([train_op, averages.apply([weight])])
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=train_op, eval_metric_ops={"right": right}
        )

    strategy = MirroredStrategy(jax.devices()[:2])
    config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), config)
    features, labels = np.float32([1, 1, 1, 0]), np.float32([1, 1, 0, 0])

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices((features, labels)).batch(4)

    estimator.train(input_fn)
    weight = estimator.get_variable_value("w")
    np.testing.assert_allclose(weight, [0.5 * 2 * (1 + 1) / 4])
    np.testing.assert_allclose(estimator.get_variable_value("w/ExponentialMovingAverage"), weight / 2)
    assert estimator.evaluate(input_fn)["right"] == pytest.approx(3 / 4)


@pytest.mark.parametrize("by_hand", [False, True])
def test_averages_are_evaluated_if_the_saver_of_the_scaffold_says_so(tmp_path: Path, by_hand: bool) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer())
        other = tf1.get_variable("other", [], initializer=tf1.ones_initializer(), trainable=False)
        loss, averages = tf1.reduce_sum((w - features) * other), tf1.train.ExponentialMovingAverage(0.5)
        if mode == tf.estimator.ModeKeys.TRAIN:
            step = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, tf1.train.get_global_step())
            with tf1.control_dependencies([step]):
                return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=averages.apply([w]))
        names = averages.variables_to_restore()
        assert list(names) == ["w/ExponentialMovingAverage", "global_step", "other"]
        saver = tf1.train.Saver({"w/ExponentialMovingAverage": w} if by_hand else names)
        return tf.estimator.EstimatorSpec(
            mode, predictions=w + features, loss=loss, scaffold=tf1.train.Scaffold(saver=saver)
        )

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(np.zeros(1, np.float32)).repeat(2)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn)
    assert estimator.get_variable_value("w") == -2
    assert estimator.evaluate(input_fn)["loss"] == -1.25
    assert next(estimator.predict(input_fn)) == -1.25


def test_a_saver_of_an_evaluation_misses_what_the_checkpoint_lacks(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer())
        scaffold = tf1.train.Scaffold(saver=tf1.train.Saver({"v": w}))
        train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=w * 1, train_op=train_op, scaffold=scaffold)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(np.zeros(1, np.float32))

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn)
    with pytest.raises(ValueError, match="Key v not found in checkpoint"):
        estimator.evaluate(input_fn)


def test_a_saver_of_an_evaluation_leaves_its_metrics_alone(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf1.get_variable("w", [], initializer=tf1.ones_initializer())
        metrics = {"mean": tf1.metrics.mean(w)} if mode == tf.estimator.ModeKeys.EVAL else None
        saver = tf1.train.Saver([*tf1.global_variables(), *tf1.local_variables()])
        train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
        scaffold = tf1.train.Scaffold(saver=saver)
        return tf.estimator.EstimatorSpec(
            mode, loss=w * 1, train_op=train_op, scaffold=scaffold, eval_metric_ops=metrics
        )

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(np.zeros(1, np.float32))

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn)
    assert estimator.evaluate(input_fn)["mean"] == 1
