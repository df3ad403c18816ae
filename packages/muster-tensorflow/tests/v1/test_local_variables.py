"""Local variables of a program: its own metrics and counters, which begin anew in each session.

The numbers are those of TensorFlow 2.15.1.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from muster_tensorflow.python.ops.metrics_impl import metric_variable

import muster_tensorflow as tf2
import muster_tensorflow.compat.v1 as tf
from muster.checkpoint import latest_checkpoint, list_variables

ONES = np.r_[np.ones(45), np.zeros(55)].astype(np.float32)[:, None]
LOCAL = [tf.GraphKeys.LOCAL_VARIABLES]
OF_METRICS = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
ZEROS = tf.zeros_initializer


def local(name: str, shape: tuple[int, ...] = (), collections: Any = OF_METRICS, **options: Any) -> Any:
    options = {"initializer": ZEROS(), "trainable": False, **options}
    return tf.get_variable(name, shape, collections=collections, **options)


def counted(labels: Any) -> tuple[Any, Any, Any]:
    total, count = local("total"), local("count", collections=LOCAL)
    adds = (
        tf.assign_add(total, tf.reduce_sum(labels)),
        tf.assign_add(count, tf.cast(tf.size(labels), tf.float32)),
    )
    return total, count, adds


def ratio_before(labels: Any) -> Any:
    total, count = local("total"), local("count")
    value = tf.div_no_nan(total, count)
    size = tf.cast(tf.size(labels), tf.float32)
    return value, tf.group(tf.assign_add(total, tf.reduce_sum(labels)), tf.assign_add(count, size))


def ratio_beside_an_update_of_its_parts(labels: Any) -> Any:
    total, count = local("total"), local("count")
    value = 100 * total / count
    with tf.control_dependencies([tf.assign_add(total, tf.reduce_sum(labels))]):
        return value, tf.assign_add(count, tf.cast(tf.size(labels), tf.float32))


def update_by_ratio(labels: Any) -> Any:
    total, count, adds = counted(labels)
    with tf.control_dependencies(adds):
        update = total / count
    return total / count, update


def variance(labels: Any) -> Any:
    count, total, squares = local("count"), local("total"), local("squares")
    mean = total / count
    value = tf.sqrt(squares / count - mean**2)
    sums = tf.cast(tf.size(labels), tf.float32), tf.reduce_sum(labels), tf.reduce_sum(labels**2)
    return value, tf.group(*map(tf.assign_add, (count, total, squares), sums))


def confusion(labels: Any) -> Any:
    matrix = local("matrix", (2, 2), dtype=tf.int32, initializer=tf.zeros_initializer(tf.int32))
    share = matrix[1, 0] / tf.reduce_sum(matrix)
    found = tf.math.confusion_matrix(
        tf.cast(labels[:, 0], tf.int32), tf.zeros_like(labels[:, 0], tf.int32), 2
    )
    return share, matrix.assign_add(found)


def largest(labels: Any) -> Any:
    most = local("most")
    return most.read_value(), tf.assign(most, tf.maximum(most, tf.reduce_sum(labels)))


def f1(labels: Any) -> Any:
    p, p_op = tf.metrics.precision(labels, tf.ones_like(labels))
    r, r_op = tf.metrics.recall(labels, tf.ones_like(labels))
    return 2 * p * r / (p + r), tf.group(p_op, r_op)


def in_a_variable_of_its_class(labels: Any) -> Any:
    plain = tf.Variable(0.0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="plain")
    return plain.value(), plain.assign_add(tf.reduce_sum(labels))


def of_metric_variable(labels: Any) -> Any:
    total = metric_variable([], tf.float32, name="total")
    return tf.identity(total), tf.assign_add(total, tf.reduce_sum(labels))


def by_a_condition(labels: Any) -> Any:
    full = local("full")
    count = tf.cond(tf.reduce_sum(labels) > 5, lambda: tf.assign_add(full, 1.0), lambda: tf.identity(full))
    return full.read_value(), count


def running_variance(labels: Any) -> Any:
    """Welford's: the update reads the values that the value reads, before it assigns to them."""
    count, mean, squares = local("count"), local("mean"), local("squares")
    size, here = tf.cast(tf.size(labels), tf.float32), tf.reduce_mean(labels)
    total, apart = count + size, here - mean
    inner = tf.reduce_sum((labels - here) ** 2)
    changes = (
        tf.assign(squares, squares + inner + apart**2 * count * size / total),
        tf.assign(mean, mean + apart * size / total),
        tf.assign(count, total),
    )
    return squares / count, tf.group(*changes)


def of_get_local_variable(labels: Any) -> Any:
    total = tf.get_local_variable("total", (), initializer=ZEROS())
    return total * 2, tf.assign_add(total, tf.reduce_sum(labels))


FORMS: dict[Callable[[Any], Any], float] = {
    lambda labels: (lambda total, _, adds: (total, adds[0]))(*counted(labels)): 45.0,
    lambda labels: (lambda total, _, adds: (total.read_value(), adds[0]))(*counted(labels)): 45.0,
    lambda labels: (lambda total, count, adds: (total / count, tf.group(*adds)))(*counted(labels)): 0.45,
    ratio_before: 0.45,
    ratio_beside_an_update_of_its_parts: 45.0,
    update_by_ratio: 0.45,
    variance: 0.497494,
    confusion: 0.45,
    largest: 9.0,
    f1: 0.62069,
    in_a_variable_of_its_class: 45.0,
    of_get_local_variable: 90.0,
    of_metric_variable: 45.0,
    by_a_condition: 5.0,
    running_variance: 0.2475,
}


def model_with(metric: Callable[[Any], Any]) -> Callable[..., Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(labels) * tf.get_variable("w", ())
        if mode == "eval":
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"own": metric(labels)})
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def input_fn(batch_size: int = 9) -> Any:
    return tf.data.Dataset.from_tensor_slices(({"x": ONES}, ONES)).batch(batch_size)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: getattr(form, "__name__", None))
def test_a_metric_of_ones_own_is_read_after_all_updates(form: Callable[[Any], Any], tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_with(form), str(tmp_path))
    estimator.train(lambda: input_fn().repeat(), steps=1)
    found = [float(estimator.evaluate(input_fn)["own"]) for _ in range(2)]
    assert found == pytest.approx([FORMS[form]] * 2, rel=1e-5)


def test_replicas_add_up_to_the_metric(tmp_path: Path) -> None:
    cpus = tf2.config.list_logical_devices("CPU")
    strategy = tf2.distribute.MirroredStrategy([each.name for each in cpus[:2]])
    assert strategy.num_replicas_in_sync == 2
    config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    for number, form in enumerate((ratio_before, variance, confusion, of_get_local_variable)):
        estimator = tf.estimator.Estimator(model_with(form), str(tmp_path / str(number)), config)
        estimator.train(lambda: input_fn(10).repeat(), steps=1)
        assert float(estimator.evaluate(lambda: input_fn(10))["own"]) == pytest.approx(FORMS[form], rel=1e-5)


def counting_model(features: Any, labels: Any, mode: str) -> Any:
    """Count the steps of a session in local variables, and those of the training in others."""
    here = local("here", collections=LOCAL)
    metric = local("metric")
    ever = tf.get_variable("ever", (), initializer=ZEROS(), trainable=False)
    both = local("both", collections=[*OF_METRICS, tf.GraphKeys.GLOBAL_VARIABLES])
    updates = [tf.assign_add(each, 1.0) for each in (here, metric, ever, both)]
    assert {here, metric} <= set(tf.local_variables())
    assert {ever, both} <= set(tf.global_variables())
    assert not {here, metric} & set(tf.global_variables())
    loss = tf.reduce_mean(labels) * tf.get_variable("w", ())
    train_op = tf.group(
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step()), *updates
    )
    hook = tf.train.LoggingTensorHook({"here": updates[0], "ever": updates[2]}, every_n_iter=1)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


def test_local_variables_are_in_no_checkpoint_and_begin_anew(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("INFO")
    estimator = tf.estimator.Estimator(counting_model, str(tmp_path))
    estimator.train(lambda: input_fn().repeat(), steps=3)
    estimator.train(lambda: input_fn().repeat(), steps=2)
    names = set(list_variables(latest_checkpoint(str(tmp_path))))
    assert {"ever", "both", "w"} <= names
    assert not {"here", "metric"} & names
    assert estimator.get_variable_value("ever") == 5
    assert estimator.get_variable_value("both") == 5
    logged = [r.getMessage() for r in caplog.records if "here = " in r.getMessage()]
    assert "ever = 5.0, here = 2.0" in logged[-1]


def test_a_checkpoint_without_a_local_variable_is_of_the_same_model(tmp_path: Path) -> None:
    def with_counters(count: int) -> Any:
        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            for number in range(count):
                tf.assign_add(local(f"counter_{number}", (number + 1,), LOCAL), tf.ones(number + 1))
            return model_with(lambda labels: (local("n"), tf.assign_add(local("m"), 1.0)))(
                features, labels, mode
            )

        return tf.estimator.Estimator(model_fn, str(tmp_path))

    with_counters(1).train(lambda: input_fn().repeat(), steps=1)
    with_counters(3).train(lambda: input_fn().repeat(), steps=1)
    assert with_counters(0).evaluate(input_fn)["global_step"] == 2
