"""What hooks and functions of a Scaffold find of a model_fn: variables, collections, summaries, the graph."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1


def training(directory: Path, seen: Any, start: float, rate: float = 0.0, **spec: Any) -> Any:
    """Return an Estimator whose weight starts from a number, with the hooks that ``seen(loss)`` returns."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with tf1.variable_scope("net"):
            weight = tf1.get_variable(
                "w", [], initializer=tf1.constant_initializer(start), collections=["mine", "variables"]
            )
        loss = tf1.losses.mean_squared_error(features * 0, features * weight)
        tf1.summary.scalar("error", loss)
        train_op = tf1.train.GradientDescentOptimizer(rate).minimize(loss, tf1.train.get_global_step())
        hooks = seen(loss) or []
        made = {name: make() for name, make in spec.items()}
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks, **made)

    return tf.estimator.Estimator(model_fn, str(directory))


def ones() -> Any:
    return tf.data.Dataset.from_tensors(np.ones(1, np.float32)).repeat()


class Finding(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Asks in ``begin`` for all that there is, and fetches it."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def begin(self) -> None:
        graph = tf1.get_default_graph()
        assert [each.name for each in tf1.trainable_variables("net")] == ["net/w:0"]
        assert [each.op.name for each in tf1.global_variables()][:2] == ["global_step", "net/w"]
        assert tf1.local_variables() == []
        (mine,), (loss,) = graph.get_collection("mine"), graph.get_collection(tf1.GraphKeys.LOSSES)
        summaries = tf1.summary.merge_all()
        self.fetches = {"mine": mine, "loss": loss, "named": graph.get_tensor_by_name("twice:0"), **summaries}

    def after_create_session(self, session: Any, coord: Any) -> None:
        assert session.graph is tf1.get_default_graph()
        assert session.run([tf1.tables_initializer(), tf1.local_variables_initializer()]) is None

    def before_run(self, run_context: Any) -> Any:
        assert run_context.session.graph.get_collection("mine") == [self.fetches["mine"]]
        return tf1.train.SessionRunArgs(self.fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.found.append({name: float(value) for name, value in run_values.results.items()})


def test_hooks_find_what_a_model_fn_has_made(tmp_path: Path) -> None:
    hook = Finding()
    estimator = training(tmp_path, lambda loss: tf1.multiply(loss, 2.0, name="twice") is None, 3.0)
    estimator.train(ones, steps=1, hooks=[hook])
    assert hook.found == [{"mine": 3.0, "loss": 9.0, "named": 18.0, "error": 9.0}]


class Restoring(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Restores the variables of a scope, as programs do that start from another model's checkpoint."""

    def __init__(self, path: str) -> None:
        self.path = path

    def begin(self) -> None:
        self.saver = tf1.train.Saver([each for each in tf1.trainable_variables() if "net" in each.op.name])

    def after_create_session(self, session: Any, coord: Any) -> None:
        if session.run(tf1.train.get_or_create_global_step()) == 0:
            self.saver.restore(session, self.path)


def test_a_hook_restores_variables_of_another_checkpoint(tmp_path: Path) -> None:
    first = training(tmp_path / "first", lambda loss: None, 3.0)
    first.train(ones, steps=2)
    second = training(tmp_path / "second", lambda loss: [Restoring(first.latest_checkpoint())], 0.0, 0.25)
    second.train(ones, steps=1)
    assert second.get_variable_value("net/w") == 1.5
    second.train(ones, steps=1)  # not again
    assert second.get_variable_value("net/w") == 0.75


def test_a_hook_sets_variables_by_values_of_their_shape(tmp_path: Path) -> None:
    class Setting(tf1.train.SessionRunHook):  # type: ignore[misc]
        def after_create_session(self, session: Any, coord: Any) -> None:
            session.set_variable_value("net/w", 7.0)
            session.set_variable_value("global_step", 5)
            with pytest.raises(ValueError, match=r"net/w has the shape \(\), given a value of shape \(2,\)"):
                session.set_variable_value("net/w", [1.0, 2.0])
            with pytest.raises(KeyError, match="no variable 'v'"):
                session.set_variable_value("v", 1.0)

    estimator = training(tmp_path, lambda loss: [Setting()], 0.0)
    estimator.train(ones, max_steps=7)
    assert estimator.get_variable_value("net/w") == 7.0
    assert estimator.get_variable_value("global_step") == 7


def test_an_init_fn_finds_reads_loads_and_assigns_to_variables(tmp_path: Path) -> None:
    def init_fn(scaffold: Any, session: Any) -> None:
        (weight,) = tf1.trainable_variables("net")
        assert [each.op.name for each in tf1.global_variables()][:2] == ["global_step", "net/w"]
        assert weight.eval(session) == 1.0
        weight.load(3.0, session)
        assert session.run(weight) == 3.0
        session.run(tf1.assign(weight, session.run(weight) * 2))

    def scaffold() -> Any:
        return tf1.train.Scaffold(init_fn=init_fn)

    estimator = training(tmp_path, lambda loss: None, 1.0, 0.0, scaffold=scaffold)
    estimator.train(ones, steps=1)
    assert estimator.get_variable_value("net/w") == 6.0


class Assigning(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Assigns what it feeds, as programs do that set the learning rate of an epoch."""

    def begin(self) -> None:
        (variable,) = [each for each in tf1.global_variables() if each.op.name == "net/w"]
        self.value = tf1.placeholder(tf1.float32, shape=[], name="value")
        self.assign = tf1.assign(variable, self.value)
        self.of_other_shape = tf1.assign(variable, [1.0, 2.0])

    def after_create_session(self, session: Any, coord: Any) -> None:
        with pytest.raises(ValueError, match="feed_dict lacks the value of .*'value'.*assigned to net/w"):
            session.run(self.assign)
        with pytest.raises(ValueError, match=r"net/w has the shape \(\), given a value of shape \(2,\)"):
            session.run(self.of_other_shape)
        session.run([self.assign], feed_dict={self.value: 6.0})


def test_a_hook_assigns_what_it_feeds(tmp_path: Path) -> None:
    estimator = training(tmp_path, lambda loss: [Assigning()], 0.0)
    estimator.train(ones, steps=1)
    assert estimator.get_variable_value("net/w") == 6.0


def test_an_init_fn_runs_initializers_reads_variables_and_restores(tmp_path: Path) -> None:
    first = training(tmp_path / "first", lambda loss: None, 3.0)
    first.train(ones, steps=1)
    read = []

    def scaffold() -> Any:
        init_op = tf1.global_variables_initializer()
        variables = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope="net")
        saver = tf1.train.Saver(variables)

        def init_fn(scaffold: Any, session: Any) -> None:
            session.run(init_op)
            read.append([float(each) for each in session.run(variables)])
            saver.restore(session, first.latest_checkpoint())
            read.append(float(session.run("net/w:0")))
            assert session.graph is tf1.get_default_graph()

        return tf1.train.Scaffold(init_fn=init_fn)

    training(tmp_path / "second", lambda loss: None, 0.0, scaffold=scaffold).train(ones, steps=1)
    assert read == [[0.0], 3.0]


def test_a_model_fn_computes_with_what_it_has_named() -> None:
    def step(x: Any) -> dict[str, Any]:
        with tf1.variable_scope("net"):
            tf1.get_variable("w", [], initializer=tf1.ones_initializer())
            tf1.nn.relu(x + 1, name="hidden")
        graph = tf1.get_default_graph()
        hidden, weight = graph.get_tensor_by_name("net/hidden:0"), graph.get_tensor_by_name("net/w:0")
        assert graph.get_tensor_by_name("other:0").name == "other:0"
        return {"sum": hidden + weight}

    assert outputs_of(step)["sum"] == 3


def test_variables_are_in_collections_once_and_getters_hear_of_them() -> None:
    heard = []

    def getter(get: Any, name: str, **options: Any) -> Any:
        heard.append(options["collections"])
        return get(name, **options)

    def step(x: Any) -> dict[str, Any]:
        with tf1.variable_scope("net", reuse=tf1.AUTO_REUSE, custom_getter=getter):
            both = ["mine", tf1.GraphKeys.MOVING_AVERAGE_VARIABLES]
            weights = [tf1.get_variable("w", [], collections=both) for _ in range(2)]
        assert all(tf1.get_collection(each) == weights[:1] for each in both)
        assert tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES) == weights[:1]
        return {"x": x}

    outputs_of(step)
    assert heard[:2] == [["mine", "moving_average_variables"]] * 2


def test_a_hook_gives_options_of_a_run(tmp_path: Path) -> None:
    class Reporting(tf1.train.SessionRunHook):  # type: ignore[misc]
        def before_run(self, run_context: Any) -> Any:
            options = tf1.RunOptions(report_tensor_allocations_upon_oom=True)
            return tf1.train.SessionRunArgs(fetches=[], options=options)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            assert run_values.results == []

    with tf1.colocate_with(None):
        estimator = training(tmp_path, lambda loss: [Reporting()], 1.0)
    estimator.train(ones, steps=1)
    assert tf1.RunOptions.FULL_TRACE == 3
