"""Optimizers that programs derive from ``tf.train.Optimizer`` and its kin."""

from types import SimpleNamespace

import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.programs.v1.training import _sync_replicas


class WithDecay(tf.train.Optimizer):
    """Momentum with weight decay, in variables of its own."""

    def __init__(self, rate, decay, name="WithDecay"):
        super().__init__(False, name)
        self.rate, self.decay = rate, decay

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        changes = []
        for gradient, variable in grads_and_vars:
            momentum = tf.get_variable(
                variable.op.name + "/momentum",
                variable.shape.as_list(),
                initializer=tf.zeros_initializer(),
                trainable=False,
            )
            new = 0.9 * momentum + gradient + self.decay * variable
            changes += [momentum.assign(new), variable.assign(variable - self.rate * new)]
        if global_step is not None:
            changes.append(global_step.assign(global_step + 1))
        return tf.group(*changes, name=name)


class Halved(tf.train.GradientDescentOptimizer):
    """Gradient descent by half of each gradient."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [(gradient / 2, variable) for gradient, variable in grads_and_vars]
        return super().apply_gradients(pairs, global_step, name)


def trained(optimizer, folder, steps=3, strategy=None):
    def model_fn(features, labels, mode):
        with tf.variable_scope("model"):
            w = tf.get_variable("w", [], initializer=tf.constant_initializer(1.0))
        loss = tf.reduce_mean(features["x"] * w)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step())
        )

    estimator = tf.estimator.Estimator(
        model_fn, str(folder), tf.estimator.RunConfig(train_distribute=strategy)
    )
    x = {"x": np.full(8, 2.0, np.float32)}
    estimator.train(
        tf.estimator.inputs.numpy_input_fn(x, batch_size=2, num_epochs=None, shuffle=False), steps=steps
    )
    assert int(estimator.get_variable_value("global_step")) == steps
    return estimator


def test_an_optimizer_of_ones_own_keeps_variables_below_those_it_trains(tmp_path):
    estimator = trained(WithDecay(0.1, 0.5), tmp_path)
    assert sorted(estimator.get_variable_names()) == ["global_step", "model/w", "model/w/momentum"]
    w, momentum = 1.0, 0.0
    for _ in range(3):
        momentum = 0.9 * momentum + 2 + 0.5 * w
        w -= 0.1 * momentum
    np.testing.assert_allclose(estimator.get_variable_value("model/w"), w, rtol=1e-6)
    np.testing.assert_allclose(estimator.get_variable_value("model/w/momentum"), momentum, rtol=1e-6)


def test_minimize_calls_what_a_subclass_defines(tmp_path):
    assert trained(Halved(0.1), tmp_path).get_variable_value("model/w") == pytest.approx(1 - 3 * 0.1)


class OfSlots(tf.train.Optimizer):
    """Adam's means without their correction, by the methods that TensorFlow 1's own optimizers define."""

    def __init__(self, rate=0.1, decay=0.5, use_locking=False, name="OfSlots"):
        super().__init__(use_locking, name)
        self._rate, self._decay = rate, decay

    def _prepare(self):
        self._rate_t = tf.convert_to_tensor(self._call_if_callable(self._rate), name="rate")

    def _create_slots(self, var_list):
        self._create_non_slot_variable(initial_value=1.0, name="power", colocate_with=var_list[0])
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _apply_dense(self, grad, var):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_t = m.assign(self._decay * m + (1 - self._decay) * grad)
        v_t = v.assign(self._decay * v + (1 - self._decay) * tf.square(grad))
        var_update = tf.assign_sub(var, self._rate_t * m_t / (tf.sqrt(v_t) + 1e-3))
        return tf.group(var_update, m_t, v_t)

    def _finish(self, update_ops, name_scope):
        power = self._get_non_slot_variable("power")
        with tf.control_dependencies(update_ops):
            update = power.assign(power * self._decay)
        return tf.group(*update_ops, update, name=name_scope)


class Plain(tf.train.Optimizer):
    def __init__(self):
        super().__init__(False, "Plain")

    def _resource_apply_dense(self, grad, handle):
        return handle.assign_sub(0.1 * grad)


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_methods_of_tensorflow_1s_optimizers_are_called(tmp_path, replicas):
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(replicas)])
    estimator = trained(OfSlots(), tmp_path, strategy=strategy)
    kept = ["model/w/OfSlots", "model/w/OfSlots_1", "power"]
    assert sorted(estimator.get_variable_names()) == ["global_step", "model/w", *kept]
    w, m, v = 1.0, 0.0, 0.0
    for _ in range(3):
        m, v = 0.5 * m + 0.5 * 2, 0.5 * v + 0.5 * 2**2
        w -= 0.1 * m / (v**0.5 + 1e-3)
    for name, expected in zip(["model/w", *kept], [w, m, v, 0.5**3], strict=True):
        np.testing.assert_allclose(estimator.get_variable_value(name), expected, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_mean_of_the_replicas_gradients_counts_as_for_other_optimizers(tmp_path, replicas):
    found = []
    for number, optimizer in enumerate([Plain(), tf.train.GradientDescentOptimizer(0.1)]):
        strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(replicas)])
        found.append(
            trained(optimizer, tmp_path / str(number), strategy=strategy).get_variable_value("model/w")
        )
    assert found[0] == pytest.approx(found[1])


def test_slots_in_eager_code():
    optimizer, w = OfSlots(), tf.Variable(1.0, name="w")
    for _ in range(2):
        optimizer.apply_gradients([(tf.constant(2.0), w), (None, tf.Variable(1.0))])
    assert optimizer.get_slot(w, "m").numpy() == 1.5
    assert optimizer.get_slot(w, "other") is None
    with pytest.raises(ValueError, match="No gradients provided"):
        optimizer.apply_gradients([(None, w)])


def in_step(rate=0.1, replicas=1):
    inner = tf.train.GradientDescentOptimizer(rate)
    return tf.train.SyncReplicasOptimizer(inner, replicas_to_aggregate=replicas, total_num_replicas=replicas)


def test_replicas_are_in_step(tmp_path, caplog):
    assert trained(in_step(), tmp_path / "one").get_variable_value("model/w") == pytest.approx(1 - 3 * 0.2)
    assert not caplog.records
    hook = in_step().make_session_run_hook(True, num_tokens=0)
    assert isinstance(hook, tf.train.SessionRunHook)
    trained(in_step(replicas=4), tmp_path / "four")
    assert "all replicas, here 1, and not of 4" in caplog.text


def test_beside_parameter_servers_workers_are_in_step_if_they_are_to_be(monkeypatch):
    def trains(max_staleness):
        steps = SimpleNamespace(shared=True, max_staleness=max_staleness)
        strategy = SimpleNamespace(steps=steps)
        monkeypatch.setattr(_sync_replicas, "get_strategy", lambda: strategy)

        def step(x):
            in_step().minimize(x * tf.get_variable("w", []), tf.train.get_global_step())
            return {"x": x}

        return outputs_of(step)

    for max_staleness in (None, 1):
        with pytest.raises(ValueError, match=f"is {max_staleness}. Set RunConfig.max_staleness=0."):
            trains(max_staleness)
    assert trains(0)
    with pytest.raises(ValueError, match="Global step is required"):
        in_step().apply_gradients([])


def test_the_operation_that_counts_steps_is_a_train_op(tmp_path):
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features["x"] * tf.get_variable("w", []))
        update = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([update]):
            train_op = tf.assign_add(tf.train.get_global_step(), 1).op
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    x = {"x": np.ones(8, np.float32)}
    estimator.train(tf.estimator.inputs.numpy_input_fn(x, batch_size=2, num_epochs=1, shuffle=False))
    assert int(estimator.get_variable_value("global_step")) == 4


def test_what_a_subclass_must_define():
    class Nothing(tf.train.Optimizer):
        pass

    assert Nothing(False, "mine").get_name() == "mine"
    with pytest.raises(ValueError, match="Must specify the optimizer name"):
        Nothing(False, "")
    with pytest.raises(NotImplementedError, match=r"Nothing defines neither apply_gradients.*_apply_dense"):
        Nothing(use_locking=False, name="mine").apply_gradients([])
    with pytest.raises(ValueError, match="not an Optimizer instance"):
        tf.estimator.LinearRegressor([], optimizer=Nothing(False, "mine"))


def test_traced_values_have_their_names():
    def step(x):
        with tf.name_scope("scope"):
            named = tf.nn.relu(x, name="out")
        both = tf.nn.moments(tf.reshape(x, [1]), [0], name="moments")
        w = tf.get_variable("part/w", [2])
        assert (x.name, named.name, named.op.name) == ("Tensor:0", "scope/out:0", "scope/out")
        assert (both[0].name, both[1].name) == ("moments:0", "moments:1")
        assert (w.name, w.op.name, tf.Variable(1.0, name="v").op.name) == ("part/w:0", "part/w", "v")
        assert tf.get_variable_scope().name == ""
        return {"out": named}

    assert float(outputs_of(step)["out"]) == 1
    assert not hasattr(tf.constant(1.0), "name")


def test_constants_of_a_step_have_names_as_traced_values():
    def step(x):
        mask = tf.ones([2, 3])
        assert (mask.name, mask.op.name, tf.constant("text").name) == ("Tensor:0", "Tensor", "Tensor:0")
        return {"out": x * tf.reduce_sum(mask)}

    assert float(outputs_of(step)["out"]) == 6
    assert not hasattr(tf.constant("text"), "name")  # eager code
