"""Options of TensorFlow 1's runtime, which programs set and muster ignores."""

import pytest

import muster_tensorflow.compat.v1 as tf


def test_programs_may_set_the_options_that_there_are():
    config = tf.ConfigProto(
        allow_soft_placement=True,
        use_per_session_threads=True,
        gpu_options=tf.GPUOptions(force_gpu_compatible=True, allocator_type="BFC"),
        graph_options=tf.GraphOptions(
            optimizer_options=tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0)
        ),
    )
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    config.graph_options.rewrite_options.auto_mixed_precision = 1
    assert config.gpu_options.force_gpu_compatible
    assert config.graph_options.optimizer_options.opt_level == -1
    assert tf.ConfigProto().graph_options.optimizer_options.global_jit_level == 0


def test_others_are_refused():
    with pytest.raises(TypeError, match="gpu_option"):
        tf.ConfigProto(gpu_option=tf.GPUOptions())
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    with pytest.raises(AttributeError, match="inter_op_threads"):
        config.inter_op_threads = 3
    with pytest.raises(AttributeError, match="alow_growth"):
        tf.ConfigProto().gpu_options.alow_growth = True


def test_a_session_with_options_initializes_and_trains_nothing():
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        tf.keras.backend.set_session(session)
        assert session.run([tf.global_variables_initializer(), tf.tables_initializer()]) is None
        for fetched in (tf.constant(1.0), tf.no_op(), [tf.global_variables_initializer(), tf.constant(1)]):
            with pytest.raises(NotImplementedError, match="There is no session: an Estimator's model_fn"):
                session.run(fetched)
    tf.InteractiveSession().close()
    with pytest.raises(TypeError, match="must be a tf.ConfigProto"):
        tf.Session(config={})
