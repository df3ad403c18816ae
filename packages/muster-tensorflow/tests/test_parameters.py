"""Functions and classes take their arguments by TensorFlow's names, in its order."""

import inspect
import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from muster_tensorflow.library.ops._parameters import takes
from recorded import IN_REPOSITORY

v1 = tf.compat.v1
RECORDED: dict[str, str] = json.loads((IN_REPOSITORY / "parameters.json").read_text())
# What TensorFlow hands on to itself, or what has no meaning here.
LACKING = {
    "tf.RaggedTensor": "row_partition internal",
    "tf.RaggedTensorSpec": "flat_values_spec",
    "tf.approx_top_k": "input",  # of JAX
    "tf.data.Dataset": "variant_tensor",
    "tf.data.NumpyIterator": "dataset",
    "tf.data.experimental.make_csv_dataset": "encoding",
    "tf.data.experimental.save": "dataset",
    "tf.distribute.ReplicaContext": "replica_id_in_sync_group",
    "tf.distribute.Strategy": "extended",
    "tf.distribute.StrategyExtended": "container_strategy",
    "tf.distribute.TPUStrategy": "experimental_spmd_xla_partitioning",
    "tf.distribute.experimental.TPUStrategy": "device_assignment",
    "tf.feature_column.categorical_column_with_vocabulary_file": "file_format",
    "tf.io.gfile.join": "path",
    "tf.keras.Input": "type_spec",
    "tf.keras.layers.Input": "type_spec",
    "tf.keras.utils.get_source_inputs": "layer node_index",
    "tf.compat.v1.ReaderBase": "reader_ref supports_serialize",
    "tf.compat.v1.VariableScope": "reuse name initializer regularizer caching_device partitioner "
    "custom_getter name_scope dtype use_resource constraint",
    "tf.compat.v1.autograph.to_code": "arg_values arg_types indentation",
    "tf.compat.v1.autograph.to_graph": "arg_values arg_types",
    "tf.compat.v1.data.Iterator": "iterator_resource initializer output_types output_shapes output_classes",
    "tf.compat.v1.device": "device_name_or_function",
    "tf.compat.v1.distribute.experimental.TPUStrategy": "steps_per_run device_assignment",
    "tf.compat.v1.distributions.Distribution": "graph_parents",
    "tf.compat.v1.estimator.experimental.dnn_logit_fn_builder": "input_layer_partitioner",
    "tf.compat.v1.gradients": "order",
    "tf.compat.v1.keras.layers.DenseFeatures": "partitioner",
    "tf.compat.v1.nn.ctc_beam_search_decoder": "merge_repeated",
    "tf.compat.v1.saved_model.load": "sess import_scope",
}
# Classes of Keras that a wrapper gives these; what is wrapped is what Python shows.
WRAPPED = {
    "tf.keras.callbacks.BackupAndRestore",
    "tf.keras.callbacks.ModelCheckpoint",
    "tf.keras.callbacks.ProgbarLogger",
    "tf.keras.losses.Loss",
    "tf.compat.v1.keras.callbacks.TensorBoard",
}
# What TensorFlow 2.13 has added to say how, which is a matter of TensorFlow's own formats and layouts.
RECENT = ("layout", "use_legacy_format", "name use_legacy_format")


def _found(path: str) -> Any:
    value: Any = tf
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


def test_all_parameters_of_tensorflow_are_taken_in_its_order() -> None:
    differing = {}
    for path, recorded in RECORDED.items():
        own = _parameters(_found(path))
        if own is None or path in WRAPPED:
            continue
        wanted = recorded.split()
        if lacking := " ".join(name for name in wanted if name not in own):
            differing |= {} if lacking in RECENT else {path: lacking}
        elif wanted != [name for name in own if name in wanted]:
            differing[path] = "order"
    assert differing == LACKING


def _parameters(value: Any) -> list[str] | None:
    """Return the names of parameters; None if any name is taken, or there is nothing to call."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    open_ended = any(each.kind is each.VAR_KEYWORD for each in found)
    return None if open_ended else [each.name for each in found]


def test_a_function_takes_other_names_of_its_parameters() -> None:
    def scaled(x: float, factor: float = 2.0) -> float:
        """Scale."""
        return x * factor

    renamed = takes(scaled, "value=x name= by=factor times=factor")
    assert (renamed(3), renamed(3, "name", 4), renamed(value=3, times=5), renamed(3, by=None)) == (
        6,
        12,
        15,
        6,
    )
    assert renamed.__doc__ == "Scale."
    assert list(inspect.signature(renamed).parameters) == ["value", "name", "by", "times"]
    with pytest.raises(ValueError, match="either by or times"):
        renamed(1, by=2, times=3)
    with pytest.raises(TypeError, match=r"scaled\(\) .*'other'; it takes value, name, by, times"):
        renamed(1, other=3)
    with pytest.raises(TypeError, match="x"):
        renamed()
    with pytest.raises(TypeError, match="not \\['z'\\]"):
        takes(scaled, "x z")


def test_operations_take_old_names_and_old_places() -> None:
    image = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    assert v1.depth_to_space(image.reshape(1, 1, 1, 4), 2, "name").shape == (1, 2, 2, 1)
    np.testing.assert_array_equal(
        v1.space_to_batch(image, [[0, 0], [0, 0]], block_size=2).ravel(), [0, 1, 2, 3]
    )
    np.testing.assert_array_equal(v1.nn.max_pool(value=image, ksize=2, strides=2, padding="SAME"), [[[[3]]]])
    np.testing.assert_array_equal(v1.nn.crelu([1.0, -1.0], "name", -1), [1, 0, 0, 1])
    np.testing.assert_array_equal(v1.nn.in_top_k([[0.1, 0.9]], [1], 1, "name"), [True])
    assert v1.random_poisson([1.0, 2.0], [3]).shape == (3, 2)
    assert (
        v1.constant([1.0], verify_shape=True).dtype
        == v1.convert_to_tensor([1], preferred_dtype="float32").dtype
    )
    np.testing.assert_array_equal(v1.count_nonzero([[1, 0]], reduction_indices=1, keep_dims=True), [[1]])
    np.testing.assert_array_equal(v1.diag([1.0, 2.0]), [[1, 0], [0, 2]])
    np.testing.assert_array_equal(v1.decode_raw(bytes="ab", out_type=tf.uint8), [97, 98])
    np.testing.assert_array_equal(tf.io.decode_raw(["abc"], tf.uint8, fixed_length=4), [[97, 98, 99, 0]])
    sparse = tf.SparseTensor([[0]], [2.0], [2])
    np.testing.assert_array_equal(v1.sparse_reduce_sum(sparse, reduction_axes=[0], keep_dims=True), [2])
    assert v1.strings.split(source=["a b"]).values.tolist() == ["a", "b"]
    assert v1.strings.split("a b", result_type="RaggedTensor").to_list() == [[b"a", b"b"]]
    assert v1.image.resize_image_with_pad(image, 4, 6, align_corners=True).shape == (1, 4, 6, 1)
    white = v1.image.draw_bounding_boxes(np.zeros((1, 2, 2, 1)), [[[0.0, 0.0, 1.0, 1.0]]], "name", [[3.0]])
    assert white.max() == 3


def test_backend_functions_take_the_names_of_keras_2() -> None:
    backend = tf.keras.backend
    x = tf.constant([-1.0, 2.0])
    np.testing.assert_array_equal(backend.clip(x, min_value=0.0, max_value=1.0), [0, 1])
    np.testing.assert_allclose(backend.relu(x, alpha=0.5, max_value=1.0), [-0.5, 1])
    np.testing.assert_allclose(tf.keras.activations.relu(x, alpha=0.5), [-0.5, 2])
    np.testing.assert_array_equal(backend.cumsum(tf.ones([2, 2])), [[1, 1], [2, 2]])
    np.testing.assert_array_equal(backend.cumprod(tf.ones([2, 2]) * 2), [[2, 2], [4, 4]])
    np.testing.assert_array_equal(backend.tile(x, n=2), [-1, 2, -1, 2])
    np.testing.assert_array_equal(backend.one_hot(indices=tf.constant([1]), num_classes=2), [[0, 1]])
    np.testing.assert_array_equal(backend.eye(size=2, name="eye"), np.eye(2))
    np.testing.assert_array_equal(backend.arange(3), [0, 1, 2])
    np.testing.assert_allclose(backend.hard_sigmoid(x), [0.3, 0.9], rtol=1e-6)
    ignored = backend.sparse_categorical_crossentropy(
        tf.constant([0, 1]), tf.constant([[0.5, 0.5]] * 2), ignore_class=0
    )
    np.testing.assert_allclose(ignored, [0, np.log(2)], rtol=1e-6)


def test_what_keras_3_has_otherwise_is_as_in_keras_2() -> None:
    keras = tf.keras
    assert keras.utils.to_categorical([1], 2, "int64").dtype == np.int64
    np.testing.assert_allclose(
        keras.losses.sparse_categorical_crossentropy([1], tf.constant([[0.0, 0.0]]), True, -1),
        [np.log(2)],
        rtol=1e-6,
    )
    np.testing.assert_allclose(keras.regularizers.l1_l2()(tf.constant([2.0])), 0.06, rtol=1e-6)
    found = keras.metrics.binary_accuracy(tf.constant([[0.0, 1.0]]), tf.constant([[0.9, 0.9]]))
    np.testing.assert_array_equal(found, [0.5])
    loss = keras.losses.Loss("sum", "own")
    assert (loss.reduction, loss.name) == ("sum", "own")
    assert keras.losses.Loss(name="own").reduction == "sum_over_batch_size"
    keras.callbacks.ProgbarLogger(count_mode="steps", stateful_metrics=None)
    keras.optimizers.Adam(jit_compile=True)
    keras.layers.LSTM(2, time_major=False)
    with pytest.raises(ValueError, match="time_major"):
        keras.layers.GRU(2, time_major=True)
    assert v1.keras.initializers.RandomNormal(dtype=tf.float32).stddev == 0.05


def test_a_variable_takes_what_tensorflow_s_takes() -> None:
    variable = tf.Variable(
        [1.0, 3.0],
        True,
        True,
        None,
        "v",
        dtype=tf.float32,
        constraint=tf.keras.constraints.NonNeg(),
        shape=[2],
    )
    assert variable.name == "v:0"
    variable.assign([3.0, 4.0], use_locking=False, name="a", read_value=True)
    variable.assign_sub(delta=[1.0, 1.0])
    np.testing.assert_array_equal(variable, [2, 3])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable)
    tf.keras.optimizers.SGD(5.0).apply_gradients([(tape.gradient(loss, variable), variable)])
    np.testing.assert_array_equal(variable, [0, 0])


def test_gradients_of_several_values_by_one() -> None:
    x = tf.Variable(3.0)

    @tf.function
    def step() -> Any:
        return tf.gradients(ys=[x * x, 2.0 * x], xs=x, grad_ys=[10.0, 1.0])

    np.testing.assert_allclose(step(), [62.0])
    with pytest.raises(ValueError, match="stop_gradients"):
        tf.function(lambda: tf.gradients(x * x, x, stop_gradients=[x]))()


def test_numpy_of_tensorflow_takes_lists_and_its_names() -> None:
    numpy = tf.experimental.numpy
    np.testing.assert_array_equal(numpy.add(x1=[1.0], x2=[2.0]), [3])
    np.testing.assert_array_equal(numpy.clip(a=[1.0, 5.0], a_min=0, a_max=2), [1, 2])
    np.testing.assert_array_equal(numpy.concatenate(arys=[[1.0], [2.0, 3.0]]), [1, 2, 3])
    np.testing.assert_array_equal(numpy.sum([[1.0, 2.0]], axis=1), [3])
    assert numpy.reshape(a=[1.0, 2.0], newshape=(2, 1)).shape == (2, 1)
    with pytest.raises(TypeError):
        numpy.add(object(), 1)


def test_nest_takes_ragged_and_sparse_tensors_apart() -> None:
    ragged, sparse = tf.ragged.constant([[1, 2], [3]]), tf.SparseTensor([[0]], [2.0], [2])
    assert len(tf.nest.flatten([ragged, sparse])) == 2
    assert len(tf.nest.flatten([ragged, sparse], expand_composites=True)) == 5
    doubled = tf.nest.map_structure(lambda x: x, {"a": ragged}, expand_composites=True)
    assert doubled["a"].to_list() == [[1, 2], [3]]
    tf.nest.assert_same_structure(nest1=[1], nest2=[2], check_types=True)
    assert tf.nest.is_nested(seq=(1,))
    assert jnp.size(tf.nest.pack_sequence_as([1], [2], expand_composites=True)[0]) == 1
