"""Small names of ``tf``, ``tf.compat``, ``tf.config``, ``tf.saved_model`` and ``tf.data.experimental``."""

import threading

import jax
import numpy as np
import pytest

import muster_tensorflow as tf

D = tf.data.experimental


def numbers(dataset):
    return list(dataset.as_numpy_iterator())


def test_constants():
    saved = tf.compat.v1.saved_model
    assert saved.tag_constants.SERVING == tf.saved_model.SERVING == "serve"
    assert saved.signature_constants.PREDICT_METHOD_NAME == "tensorflow/serving/predict"
    assert saved.constants.SAVED_MODEL_FILENAME_PB == "saved_model.pb"
    assert tf.version.GRAPH_DEF_VERSION == tf.compat.v1.GRAPH_DEF_VERSION == 1645


def test_compatibility():
    assert tf.compat.forward_compatible(2020, 1, 1)
    assert not tf.compat.forward_compatible(2030, 1, 1)
    with tf.compat.forward_compatibility_horizon(2031, 1, 1):
        assert tf.compat.forward_compatible(2030, 1, 1)
    assert isinstance("text", tf.compat.bytes_or_text_types)
    assert isinstance(np.int8(1), tf.compat.integral_types)
    assert not isinstance(1.5, tf.compat.integral_types)


def test_what_a_value_is():
    seen = []

    @tf.function
    def function(x):
        seen.extend((tf.is_symbolic_tensor(x), tf.inside_function()))
        return x

    function(tf.constant(1.0))
    assert seen == [True, True]
    assert not tf.is_symbolic_tensor(tf.constant(1.0))
    assert not tf.inside_function()
    assert tf.type_spec_from_value(np.zeros((2, 3), np.float32)) == tf.TensorSpec((2, 3), tf.float32)
    assert tf.type_spec_from_value(tf.constant([1, 2])) == tf.TensorSpec((2,), tf.int32)
    with pytest.raises(TypeError, match="Could not build a TypeSpec"):
        tf.type_spec_from_value(object())


def test_name_scopes():
    with tf.name_scope("a"), tf.name_scope("b"):
        assert tf.get_current_name_scope() == "a/b"
    assert tf.get_current_name_scope() == ""


def test_a_critical_section():
    section, inside = tf.CriticalSection(name="one"), []

    def alone():
        inside.append(len(inside))
        return tf.constant(7)

    threads = [threading.Thread(target=lambda: section.execute(alone)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == [0, 1, 2, 3]
    assert int(section.execute(alone)) == 7


def test_what_devices_are():
    with pytest.raises(ValueError, match="Allocator stats not available"):
        tf.config.experimental.get_memory_info("CPU:0")
    assert tf.config.experimental.get_device_details(tf.config.list_physical_devices("CPU")[0]) == {}
    assert tf.config.threading.get_inter_op_parallelism_threads() == 0
    assert tf.config.get_soft_device_placement()
    assert not tf.debugging.get_log_device_placement()
    assert not tf.config.experimental_functions_run_eagerly()


def test_fewer_bits():
    before = jax.config.jax_default_matmul_precision
    try:
        assert tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(False)
        assert not tf.config.experimental.tensor_float_32_execution_enabled()
    finally:
        jax.config.update("jax_default_matmul_precision", before)


def test_options_are_accepted():
    options = tf.data.Options()
    options.threading = tf.data.ThreadingOptions()
    options.threading.private_threadpool_size = 4
    options.autotune = D.AutotuneOptions()
    options.autotune.autotune_algorithm = D.AutotuneAlgorithm.STAGE_BASED
    options.experimental_optimization = D.OptimizationOptions()
    options.experimental_external_state_policy = D.ExternalStatePolicy.WARN
    assert numbers(tf.data.Dataset.range(2).with_options(options)) == [0, 1]


def test_elements_of_datasets():
    dataset = tf.data.Dataset.range(5)
    assert int(D.at(dataset, 3)) == 3
    with pytest.raises(tf.errors.OutOfRangeError, match="at 9"):
        D.at(dataset, 9)
    assert D.get_structure(dataset) == dataset.element_spec
    assert [(int(one), str(other)) for one, other in D.from_list([(1, "a"), (2, "b")])] == [
        (1, "a"),
        (2, "b"),
    ]
    iterator = iter(dataset.take(1))
    assert int(D.get_next_as_optional(iterator).get_value()) == 0
    assert not D.get_next_as_optional(iterator).has_value()


def test_padding_to_a_number_of_elements():
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2]}).apply(D.pad_to_cardinality(4))
    found = [(int(each["a"]), bool(each["valid"])) for each in dataset]
    assert found == [(1, True), (2, True), (0, False), (0, False)]
    assert dataset.cardinality() == 4
    with pytest.raises(ValueError, match="of cardinality 2 cannot be padded to 1"):
        tf.data.Dataset.from_tensor_slices({"a": [1, 2]}).apply(D.pad_to_cardinality(1))


def test_tables_of_datasets():
    words = tf.data.Dataset.from_tensor_slices(["a", "b"])
    pairs = tf.data.Dataset.zip((words, tf.data.Dataset.range(2)))
    keys = np.array(["b", "x"])
    assert D.table_from_dataset(pairs, default_value=-1).lookup(keys).tolist() == [1, -1]
    assert D.index_table_from_dataset(words, num_oov_buckets=1).lookup(keys).tolist() == [1, 2]
    assert D.index_table_from_dataset(words, default_value=-7).lookup(keys).tolist() == [1, -7]
