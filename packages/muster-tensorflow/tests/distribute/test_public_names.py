"""Whether variables, strategies and what belongs to them have the public names of TensorFlow 2.15.1."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("public_names.json").read_text())["names"]

_GRAPH = "of graphs, which there are none of; an error says so"
_MESSAGE = "a Protocol Buffers message, which muster has none of"
_INSTANCE = "an attribute of instances here"
LEFT_OUT = {
    "tf.Variable": {
        "SaveSliceInfo": "muster's checkpoints know the rows of shards themselves",
        "count_up_to": "an error at a limit inside of a step; an error says what to do",
        "from_proto": _GRAPH,
        "graph": _GRAPH,
        "initial_value": "not kept; an error says so",
        "to_proto": _GRAPH,
    },
    "tf.Variable()": {
        "create": "of graphs and lazily initialized variables; an error says so",
        "read_value_no_copy": "for TensorFlow's own code: reads copy nothing",
    },
    "tf.distribute.InputOptions": {
        "count": "of tuples, which InputOptions is in TensorFlow",
        "index": "of tuples, which InputOptions is in TensorFlow",
    },
    "tf.distribute.ReplicaContext": {
        "strategy": _INSTANCE,
    },
    "tf.distribute.Server": {"server_def": _MESSAGE},
    "tf.distribute.coordinator.ClusterCoordinator": {"strategy": _INSTANCE},
    "tf.distribute.experimental": {
        "PreemptionWatcher": "tf.distribute.experimental.PreemptionCheckpointHandler saves on preemption",
        "rpc": "servers for functions of TensorFlow's graphs",
    },
    "tf.train.ClusterSpec": {"as_cluster_def": _MESSAGE},
}


def owner_of(path: str) -> Any:
    if path.endswith("()"):
        return owner_of(path.removesuffix("()"))(1.0)
    return functools.reduce(getattr, path.split(".")[1:], tf)


@pytest.mark.parametrize("path", NAMES)
def test_public_names_are_there_or_left_out_with_a_reason(path: str) -> None:
    owner, left_out = owner_of(path), LEFT_OUT.get(path, {})
    assert {name for name in NAMES[path] if not hasattr(owner, name)} == set(left_out)


def test_what_is_left_out_of_variables_explains_itself() -> None:
    variable = tf.Variable(1.0)
    for name in ("count_up_to", "create", "from_proto", "graph", "initial_value", "to_proto"):
        with pytest.raises(AttributeError, match=rf"muster has no tf\.Variable\.{name}\. \w+"):
            getattr(variable, name)


def test_methods_of_variables_that_need_no_session() -> None:
    variable = tf.Variable([1.0, 2.0])
    assert np.asarray(variable.value() + 1).tolist() == [2.0, 3.0]
    assert np.asarray(variable.initialized_value()).tolist() == [1.0, 2.0]
    assert bool(variable.is_initialized())
    assert variable.handle is variable
    assert variable.experimental_ref() == variable.ref()
    variable.load([3.0, 4.0])
    assert variable.eval().tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="shape"):
        variable.load([1.0, 2.0, 3.0])


def test_value_is_called_and_read() -> None:
    variable = tf.Variable(2.0)
    layer = tf.keras.layers.Dense(1)
    layer.build((None, 2))
    assert float(variable.value()) == float(variable.value) == 2
    assert [each.value().shape for each in layer.weights] == [(2, 1), (1,)]
    assert float(tf.function(lambda: variable.value() * variable.value)()) == 4
    with tf.GradientTape() as tape:
        square = variable.value() * variable.value()
    assert float(tape.gradient(square, variable)) == 4
    read = variable.value
    called = read()
    assert float(called) == 2


@pytest.fixture
def strategy() -> Any:
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def test_programs_of_the_first_strategies(strategy: Any) -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32)).batch(4)
    iterator = strategy.make_dataset_iterator(data)
    assert iterator.initialize() == []
    doubled = strategy.experimental_run(lambda x: 2 * x, iterator)
    assert [np.asarray(each).tolist() for each in strategy.unwrap(doubled)] == [[0, 2], [4, 6]]
    ones = strategy.experimental_run(lambda: tf.ones(1))
    assert [np.asarray(each).tolist() for each in strategy.unwrap(ones)] == [[1], [1]]
    assert strategy.group(ones) is not None
    assert strategy.update_config_proto("config") == "config"
    assert strategy.configure(session_config=None) is None
    with strategy.scope():
        variable = tf.Variable(1.0)
        with strategy.colocate_vars_with(variable):
            assert strategy.extended.variable_created_in_scope(tf.Variable(2.0))

    of_worker = strategy.make_input_fn_iterator(
        lambda context: data.unbatch().batch(context.get_per_replica_batch_size(4))
    )
    batch = next(of_worker)
    assert [np.asarray(each).tolist() for each in strategy.unwrap(batch)] == [[0, 1], [2, 3]]


def test_a_distributed_dataset_is_reduced(strategy: Any) -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32)).batch(4)
    distributed = strategy.experimental_distribute_dataset(data)
    total = distributed.reduce(0.0, lambda state, batch: state + strategy.reduce("SUM", batch, axis=0))
    assert float(total) == 28


def test_a_hook_loads_and_evaluates_variables(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    kept: dict[str, Any] = {}

    class Loading(v1.train.SessionRunHook):
        def begin(self) -> None:
            (self.w,) = [each for each in v1.global_variables() if each.name == "w:0"]

        def after_create_session(self, session: Any, coord: Any) -> None:
            self.w.load(5.0, session)

        def end(self, session: Any) -> None:
            kept["w"] = self.w.eval(session)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", ())
        loss = w * tf.reduce_mean(features)
        train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    data = tf.data.Dataset.from_tensors(np.ones(1, np.float32)).repeat(2)
    tf.estimator.Estimator(model_fn, str(tmp_path)).train(lambda: data, hooks=[Loading()])
    assert kept == {"w": 3.0}


@pytest.mark.parametrize("steps", ["auto", None, 1, 20])
@pytest.mark.parametrize("known", [True, False])
def test_executions_of_any_size_give_the_same_numbers(strategy: Any, steps: Any, known: bool) -> None:
    x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    y = x.sum(1, keepdims=True)

    def data(rows: int) -> Any:
        signature = (tf.TensorSpec((4,)), tf.TensorSpec((1,)))
        made = lambda: zip(x[:rows], y[:rows], strict=True)  # noqa: E731
        return tf.data.Dataset.from_generator(made, output_signature=signature).batch(4)

    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((4,)), tf.keras.layers.Dense(1, kernel_initializer="ones")]
        )
        model.compile(tf.keras.optimizers.SGD(0.05), "mse", steps_per_execution=steps)
    given = {"x": x, "y": y, "batch_size": 4, "shuffle": False} if known else {"x": data(30)}
    held_out = (x[:9], y[:9] + 1) if known else data(9).map(lambda x, y: (x, y + 1))
    history = model.fit(**given, epochs=2, verbose=0, validation_data=held_out).history
    assert history["loss"] == pytest.approx([0, 0], abs=1e-6)
    assert history["val_loss"] == pytest.approx([1, 1], abs=1e-5)
    assert int(model.optimizer.iterations) == 16


def test_how_evaluation_is_divided_among_workers_may_be_said() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", pss_evaluation_shards="auto")
    assert model.evaluate(np.zeros((4, 2)), np.ones((4, 1)), verbose=0) == 1


@pytest.mark.parametrize("steps", ["many", -1, 1.5, True])
def test_other_executions_are_refused(steps: Any) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    with pytest.raises(ValueError, match='steps_per_execution is a positive number or "auto", got'):
        model.compile("sgd", "mse", steps_per_execution=steps)
