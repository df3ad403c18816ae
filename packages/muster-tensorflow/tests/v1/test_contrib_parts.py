"""What programs use of tf.contrib, and Estimators made of others."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.library.contrib.training import OPTIMIZER_SUMMARIES

layers, slim = tf.contrib.layers, tf.contrib.slim
X = np.float32([[1, -2], [3, 4]])


def test_layers_are_rectified_and_regularized() -> None:
    def step(_: Any) -> dict[str, Any]:
        start = tf.constant_initializer(1.0)
        one = layers.fully_connected(
            X, 1, weights_initializer=start, weights_regularizer=layers.l2_regularizer(0.5)
        )
        return {
            "one": one,
            "linear": layers.linear(X, 1, weights_initializer=start),
            "loss": tf.losses.get_total_loss(),
        }

    outputs = outputs_of(step)
    assert outputs["one"].ravel().tolist() == [0, 7]
    assert outputs["linear"].ravel().tolist() == [-1, 7]
    assert float(outputs["loss"]) == 0.5 * 2 / 2


def test_convolutions_have_the_dimensions_of_their_inputs() -> None:
    def build(_: Any) -> Any:
        images = np.ones((2, 6, 6, 3), np.float32)
        with slim.arg_scope([layers.convolution], padding="VALID"):
            rows = layers.convolution(images[:, 0], 4, 3)
            planes = layers.convolution(images, 4, [3, 3], stride=2)
        volumes = layers.conv3d(images[..., None], 2, 3)
        with pytest.raises(ValueError, match="expects input with rank 4, got 3"):
            layers.conv2d(images[0], 4, 3)
        with pytest.raises(ValueError, match="expects input with rank 3, 4 or 5, got 2"):
            layers.convolution(images[0, 0], 4, 3)
        return {"rows": rows, "planes": planes, "volumes": volumes, "one": layers.conv1d(images[0], 4, 3)}

    shapes = {name: found.shape for name, found in outputs_of(build).items()}
    assert shapes == {
        "rows": (2, 4, 4),
        "planes": (2, 2, 2, 4),
        "volumes": (2, 6, 6, 3, 2),
        "one": (6, 6, 4),
    }


def test_arg_scope_gives_defaults_in_its_block() -> None:
    def step(_: Any) -> dict[str, Any]:
        with slim.arg_scope(
            [slim.fully_connected], activation_fn=None, weights_initializer=tf.ones_initializer()
        ) as scope:
            inside = slim.fully_connected(X, 1)
        with slim.arg_scope(scope):
            again = slim.fully_connected(X, 1, biases_initializer=tf.ones_initializer())
        return {"inside": inside, "again": again}

    outputs = outputs_of(step)
    assert outputs["inside"].ravel().tolist() == [-1, 7]
    assert outputs["again"].ravel().tolist() == [0, 8]
    with pytest.raises(ValueError, match="not decorated"), slim.arg_scope([len], x=1):
        pass


def test_layer_norm_normalizes_examples() -> None:
    outputs = outputs_of(lambda _: {"y": layers.layer_norm(X, begin_norm_axis=-1)})
    np.testing.assert_allclose(outputs["y"], [[1, -1], [-1, 1]], rtol=1e-5)


def test_hparams_are_parsed_in_their_types() -> None:
    hparams = tf.contrib.training.HParams(rate=0.1, units=[1, 2], name="a", on=False)
    assert hparams.parse("rate=1,units=[3,4,5],on=true").values() == {
        **{"rate": 1.0, "units": [3, 4, 5]},
        **{"name": "a", "on": True},
    }
    with pytest.raises(ValueError, match="Could not parse hparam: 'other=1'"):
        hparams.parse("other=1")
    with pytest.raises(ValueError, match="Could not cast hparam 'rate'"):
        hparams.parse("rate=fast")


def model_fn(features: Any, labels: Any, mode: Any) -> Any:
    predictions = {"y": tf.layers.dense(features["x"], 1)}
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.losses.mean_squared_error(labels, predictions["y"])
    mean = tf.metrics.mean(labels)
    return tf.estimator.EstimatorSpec(
        mode,
        predictions,
        loss,
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step()),
        {"nested": ((mean[0], jnp.float32(3)), tf.group(mean[1]))},
    )


def input_fn() -> Any:
    def inner() -> Any:
        return tf.data.Dataset.from_tensors(({"x": X, "id": np.int32([7, 8])}, np.float32([[1], [5]])))

    return inner


def test_estimators_are_extended(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn)
    more = tf.estimator.add_metrics(
        estimator,
        lambda labels, predictions: {"error": tf.metrics.mean_absolute_error(labels, predictions["y"])},
    )
    results = more.evaluate(input_fn)
    assert results["nested"] == (3.0, 3.0)
    assert results["error"] > 0
    assert "error" not in estimator.evaluate(input_fn)
    forwarding = tf.contrib.estimator.forward_features(estimator, "id")
    assert [each["id"] for each in forwarding.predict(input_fn)] == [7, 8]
    with pytest.raises(ValueError, match="not expected args"):
        tf.estimator.add_metrics(estimator, lambda other: {})


def test_heads_take_an_optimizer_around_another(tmp_path: Path) -> None:
    head = tf.contrib.estimator.multi_head([tf.contrib.estimator.regression_head(name="a")])

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = {"a": tf.layers.dense(features, 1, kernel_initializer=tf.zeros_initializer())}
        inner = tf.train.GradientDescentOptimizer(1.0)
        optimizer = tf.contrib.estimator.clip_gradients_by_norm(inner, 0.5)
        return head.create_estimator_spec(features, mode, logits, labels={"a": labels}, optimizer=optimizer)

    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((np.float32([[3]]), np.float32([[4]]))))
    moved = [estimator.get_variable_value(f"dense/{name}") for name in ("kernel", "bias")]
    # The gradient is (-24, -8): a step of the length 0.5 along (3, 1).
    np.testing.assert_allclose(np.ravel(moved[0])[0], 0.5 * 3 / 10**0.5, rtol=1e-5)
    np.testing.assert_allclose(moved[1], [0.5 / 10**0.5], rtol=1e-5)
    assert estimator.get_variable_value("global_step") == 1


def test_canned_estimators_take_an_optimizer_around_another(tmp_path: Path) -> None:
    column = tf.feature_column.numeric_column("x")
    optimizer = tf.contrib.estimator.clip_gradients_by_norm(tf.train.GradientDescentOptimizer(1.0), 0.5)
    assert isinstance(optimizer, tf.train.Optimizer)
    estimator = tf.estimator.LinearRegressor([column], tmp_path, optimizer=optimizer)
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": np.float32([[3]])}, np.float32([[4]]))))
    names = [name for name in estimator.get_variable_names() if "weights" in name]
    moved = {name: float(np.ravel(estimator.get_variable_value(name))[0]) for name in names}
    assert sorted(moved.values()) == pytest.approx([0.5 / 10**0.5, 1.5 / 10**0.5], rel=1e-5), moved


def test_all_reduce_of_contrib_names_an_algorithm() -> None:
    strategy = tf.contrib.distribute.MirroredStrategy(
        cross_device_ops=tf.contrib.distribute.AllReduceCrossDeviceOps("nccl", num_packs=2)
    )
    assert strategy.num_replicas_in_sync >= 1


def test_devices_are_listed_by_name():
    devices = tf.contrib.eager.list_devices()
    assert devices[0] == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert tf.contrib.eager.num_gpus() == sum("device:GPU" in name for name in devices)


def test_separable_convolutions_mix_channels_if_told() -> None:
    images = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2)
    ones = {"weights_initializer": tf.ones_initializer(), "scope": "once"}

    def step(_: Any) -> dict[str, Any]:
        alone = slim.separable_conv2d(images, None, [3, 3], depth_multiplier=1, stride=2, **ones)
        mixed = slim.separable_conv2d(images, 5, 3, padding="VALID", weights_regularizer=None)
        wide = layers.conv1d(images[0], 3, 2, scope="wide", normalizer_fn=slim.batch_norm)
        names = [each.path for each in slim.get_model_variables()]
        return {"alone": alone, "mixed": mixed, "wide": wide, "names": jnp.float32(len(names))}

    found = outputs_of(step)
    sums = [[images[0, :3, :3].sum((0, 1)), images[0, :3, 2:].sum((0, 1))]]
    sums += [[images[0, 2:, :3].sum((0, 1)), images[0, 2:, 2:].sum((0, 1))]]
    np.testing.assert_allclose(found["alone"][0], sums)
    assert found["mixed"].shape == (1, 2, 2, 5)
    assert found["wide"].shape == (4, 4, 3)


@pytest.mark.parametrize(
    ("groups", "axes"), [(1, (1, 2, 3)), (2, None), (4, (1, 2))], ids=["layer", "two groups", "instance"]
)
def test_norms_of_groups(groups: int, axes: Any) -> None:
    images = np.random.default_rng(1).normal(2, 3, (2, 3, 3, 4)).astype(np.float32)
    one = outputs_of(lambda _: {"y": layers.group_norm(images, groups)})["y"]
    if axes is None:
        halves = np.split(images, 2, axis=3)
        wanted = np.concatenate([normalized(half, (1, 2, 3)) for half in halves], axis=3)
    else:
        wanted = normalized(images, axes)
    np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)
    if groups == 4:
        other = outputs_of(lambda _: {"y": layers.instance_norm(images)})["y"]
        np.testing.assert_allclose(other, wanted, rtol=1e-4, atol=1e-5)


def normalized(values: Any, axes: Any) -> Any:
    return (values - values.mean(axes, keepdims=True)) / np.sqrt(values.var(axes, keepdims=True) + 1e-6)


def test_wrong_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="4 channels are not divided by 3 groups"):
        layers.group_norm(np.zeros((1, 2, 2, 4), np.float32), 3)


def test_variables_are_found_by_scopes_and_names() -> None:
    def step(_: Any) -> dict[str, Any]:
        slim.fully_connected(X, 2, scope="one")
        with tf.variable_scope("two"):
            slim.fully_connected(X, 2, scope="logits")
        paths = [
            [each.path for each in found]
            for found in (
                slim.get_variables("two"),
                slim.get_variables_by_suffix("biases"),
                slim.get_variables_by_name("weights", "one"),
                slim.get_variables_to_restore(exclude=["two/logits"]),
                slim.get_variables_to_restore(include=["two"]),
            )
        ]
        assert paths == [
            ["two/logits/weights", "two/logits/biases"],
            ["one/biases", "two/logits/biases"],
            ["one/weights"],
            ["one/weights", "one/biases"],
            ["two/logits/weights", "two/logits/biases"],
        ]
        return {}

    outputs_of(step)


def test_layers_are_scopes_of_weights_biases_and_what_normalizes() -> None:
    images = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2)

    def network(reuse: bool | None) -> Any:
        norm = {"normalizer_fn": slim.batch_norm}
        with tf.variable_scope("net", reuse=reuse):
            found = slim.conv2d(images, 2, 3, scope="conv1", **norm)
            found = slim.conv2d(found, 2, 3)
            found = slim.conv2d(found, 2, 3, biases_initializer=None)
            found = slim.conv2d_transpose(found, 2, 3)
            found = slim.separable_conv2d(found, 2, 3, 1)
            found = slim.separable_conv2d(found, None, 3, 1, **norm)
            with tf.variable_scope("logits") as scope:
                pass
            return slim.fully_connected(slim.flatten(found), 2, activation_fn=None, scope=scope)

    def step(_: Any) -> dict[str, Any]:
        first, again = network(None), network(True)
        slim.fully_connected(X, 1, scope="fc", **{"normalizer_fn": slim.batch_norm})
        slim.fully_connected(X, 1, scope="fc", reuse=True, **{"normalizer_fn": slim.batch_norm})
        slim.fully_connected(X, 1)
        slim.fully_connected(X, 1)
        slim.batch_norm(X)
        slim.bias_add(images, data_format="NCHW", scope="bias")
        found = slim.get_model_variables()
        norm = ("beta", "moving_mean", "moving_variance")
        assert [each.path for each in found] == [
            "net/conv1/weights",
            *(f"net/conv1/BatchNorm/{name}" for name in norm),
            *("net/Conv/weights", "net/Conv/biases", "net/Conv_1/weights"),
            *("net/Conv2d_transpose/weights", "net/Conv2d_transpose/biases"),
            *("net/SeparableConv2d/depthwise_weights", "net/SeparableConv2d/pointwise_weights"),
            *("net/SeparableConv2d/biases", "net/SeparableConv2d_1/depthwise_weights"),
            *(f"net/SeparableConv2d_1/BatchNorm/{name}" for name in norm),
            *("net/logits/weights", "net/logits/biases", "fc/weights"),
            *(f"fc/BatchNorm/{name}" for name in norm),
            *("fully_connected/weights", "fully_connected/biases"),
            *("fully_connected_1/weights", "fully_connected_1/biases"),
            *(f"BatchNorm/{name}" for name in norm),
            "bias/biases",
        ]
        assert found[-1].shape == (4,)
        return {"first": first, "again": again}

    found = outputs_of(step)
    np.testing.assert_array_equal(found["first"], found["again"])


def test_layers_in_turn_are_in_a_scope() -> None:
    def network(reuse: bool | None) -> Any:
        with tf.variable_scope("net", reuse=reuse):
            found = slim.repeat(X, 2, slim.fully_connected, 3, scope="fc")
            found = slim.stack(found, slim.fully_connected, [4, (2,)], scope="out", biases_initializer=None)
            return slim.repeat(found, 1, slim.fully_connected, 1)

    def step(_: Any) -> dict[str, Any]:
        outputs = {"first": network(None), "again": network(True)}
        assert [(each.path, each.shape[-1]) for each in slim.get_model_variables()] == [
            *(("net/fc/fc_1/weights", 3), ("net/fc/fc_1/biases", 3)),
            *(("net/fc/fc_2/weights", 3), ("net/fc/fc_2/biases", 3)),
            *(("net/out/out_1/weights", 4), ("net/out/out_2/weights", 2)),
            *(("net/Repeat/fully_connected_1/weights", 1), ("net/Repeat/fully_connected_1/biases", 1)),
        ]
        return outputs

    found = outputs_of(step)
    np.testing.assert_array_equal(found["first"], found["again"])


def test_layers_in_turn_without_a_scope_have_the_names_of_their_functions() -> None:
    def step(_: Any) -> dict[str, Any]:
        images = np.zeros((1, 8, 8, 2), np.float32)
        functions = (slim.conv2d, slim.conv2d_transpose, slim.separable_conv2d)
        for function, arguments in zip(functions, ((2, 1), (2, 1), (None, 1, 1)), strict=True):
            slim.repeat(images, 1, function, *arguments, biases_initializer=None)
        assert [each.path for each in slim.get_model_variables()] == [
            "Repeat/convolution2d_1/weights",
            "Repeat_1/convolution2d_transpose_1/weights",
            "Repeat_2/separable_convolution2d_1/depthwise_weights",
        ]
        return {}

    outputs_of(step)


def test_layers_without_a_name_are_found_again() -> None:
    def network(reuse: bool | None) -> Any:
        with tf.variable_scope("net", reuse=reuse):
            rows = layers.embed_sequence([[0, 1]], 2, 4)
            for norm in (layers.layer_norm, layers.group_norm, layers.instance_norm, layers.bias_add):
                rows = norm(rows, **{"groups": 2} if norm is layers.group_norm else {})
            return layers.layer_norm(rows)

    def step(_: Any) -> dict[str, Any]:
        outputs = {"first": network(None), "again": network(True)}
        assert sorted(each.path for each in tf.global_variables()) == [
            *("net/BiasAdd/biases", "net/EmbedSequence/embeddings"),
            *("net/GroupNorm/beta", "net/GroupNorm/gamma", "net/InstanceNorm/beta", "net/InstanceNorm/gamma"),
            *("net/LayerNorm/beta", "net/LayerNorm/gamma", "net/LayerNorm_1/beta", "net/LayerNorm_1/gamma"),
        ]
        return outputs

    found = outputs_of(step)
    np.testing.assert_array_equal(found["first"], found["again"])


def test_variables_start_from_a_checkpoint_that_may_lack_some(tmp_path: Path, caplog: Any) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(params["start"]))
        if params["source"]:
            tf.get_variable("added", [], initializer=tf.zeros_initializer())
            restore = slim.assign_from_checkpoint_fn(
                params["source"], slim.get_variables_to_restore(), ignore_missing_vars=params["ignore"]
            )
            assert restore(None) is None
        loss = weight * 1.0
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def trained(name: str, **params: Any) -> Any:
        params = {"start": 5.0, "source": None, "ignore": True} | params
        estimator = tf.estimator.Estimator(model_fn, tmp_path / name, params=params)
        return estimator.train(lambda: {"x": np.zeros(2, np.float32)}, max_steps=1)

    first = trained("first")
    assert first.get_variable_value("weight") == 4
    second = trained("second", start=0.0, source=first.latest_checkpoint())
    assert second.get_variable_value("weight") == 3
    assert "Variable added missing in checkpoint" in caplog.text
    with pytest.raises(ValueError, match="added is not found"):
        trained("third", source=first.latest_checkpoint(), ignore=False)


def test_optimize_loss_writes_gradients(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1, name="d"))
        train_op = layers.optimize_loss(
            loss, None, 0.1, "SGD", clip_gradients=2.0, summaries=OPTIMIZER_SUMMARIES
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((np.zeros((1, 2), "float32"), np.float32([[3]]))))
    found = EventAccumulator(str(tmp_path)).Reload()
    values = {tag: found.Scalars(tag)[0].value for tag in found.Tags()["scalars"]}
    expected = {
        **{"global_norm/gradient_norm": 6, "global_norm/clipped_gradient_norm": 2},
        **{"gradient_norm/d/kernel": 0, "gradient_norm/d/bias": 2},
    }
    assert {tag: values[tag] for tag in expected} == pytest.approx(expected)
    assert {"gradients/d/kernel", "gradients/d/bias"} <= {*found.Tags()["tensors"]}
    with pytest.raises(ValueError, match="Summaries should be one of"):
        layers.optimize_loss(None, None, 0.1, "SGD", summaries=["weights"])
