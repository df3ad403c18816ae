"""``tf.DeviceSpec``; what is expected is what TensorFlow 2.15 returned."""

import pytest

import muster_tensorflow as tf


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("/job:w/task:1/device:GPU:3", "/job:w/task:1/device:GPU:3"),
        ("/gpu:1", "/device:GPU:1"),
        ("/cpu:*", "/device:CPU:*"),
        ("", ""),
        ("/job:a/replica:1/task:2/GPU:0", "/job:a/replica:1/task:2/device:GPU:0"),
        ("GPU:0", "/device:GPU:0"),
    ],
)
def test_names_are_taken_apart_and_put_together(name, again):
    spec = tf.DeviceSpec.from_string(name)
    assert spec.to_string() == again
    assert spec == tf.DeviceSpec.from_string(again)
    assert hash(spec) == hash(tf.DeviceSpec().parse_from_string(again))


@pytest.mark.parametrize("name", ["/device:GPU", "/replica:0/task:*", "/foo:1", "/cpu:0/gpu:1"])
def test_what_names_no_device_is_refused(name):
    with pytest.raises(ValueError, match=r"\*|foo|device|cpu"):
        tf.DeviceSpec.from_string(name)


def test_parts_are_of_their_types_and_never_change():
    spec = tf.DeviceSpec(job="ps", replica="1", task=2, device_type="gpu", device_index=0)
    assert (spec.job, spec.replica, spec.task, spec.device_type, spec.device_index) == ("ps", 1, 2, "GPU", 0)
    assert repr(spec) == "<DeviceSpec(job=ps, replica=1, task=2, device_type=GPU, device_index=0)>"
    assert spec.replace(task=None, device_type="CPU").to_string() == "/job:ps/replica:1/device:CPU:0"
    with pytest.raises(AttributeError, match="job"):
        spec.job = "worker"
    merged = tf.DeviceSpec(job="a", task=1).make_merged_spec(tf.DeviceSpec(job="b", device_type="CPU"))
    assert merged.to_string() == "/job:b/task:1/device:CPU:*"


@pytest.mark.parametrize("spec", [tf.DeviceSpec(), tf.DeviceSpec(device_type="CPU", device_index=0)])
def test_computations_run_where_a_spec_says(spec):
    with tf.device(spec):
        assert tf.constant(1.0).device.endswith("CPU:0")
