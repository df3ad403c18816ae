"""``tf.profiler.experimental`` writes profiles that TensorBoard shows."""

import pytest

import muster_tensorflow as tf


def profiles(folder):
    return [path.read_bytes() for path in folder.glob("plugins/profile/*/*.xplane.pb")]


def test_profiles_are_written(tmp_path):
    tf.profiler.experimental.start(str(tmp_path / "started"))
    for step in range(2):
        with tf.profiler.experimental.Trace("named_step", step_num=step, _r=1):
            tf.reduce_sum(tf.ones([8]))
    with tf.profiler.experimental.Trace("named_part"):
        tf.reduce_sum(tf.ones([8]))
    tf.profiler.experimental.stop()
    [profile] = profiles(tmp_path / "started")
    assert b"named_step" in profile
    assert b"named_part" in profile
    with pytest.raises(RuntimeError, match="No profile started"):
        tf.profiler.experimental.stop()


def test_a_profile_ends_with_its_block(tmp_path):
    with pytest.raises(KeyError), tf.profiler.experimental.Profile(tmp_path):
        raise KeyError
    assert len(profiles(tmp_path)) == 1
