"""TensorFlow 1's summaries: of a model_fn's step, and of writers that programs open themselves."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from v1_steps import outputs_of

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster.distribute import MirroredStrategy
from muster.estimator import SessionRunArgs, SessionRunHook


def accumulated(folder: str | Path) -> Any:
    found = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    found.Reload()
    return found


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    images = features["x"]
    kernel = tf1.get_variable("kernel", [4, 1])
    loss = tf.reduce_mean((tf.matmul(tf.reshape(images, [-1, 4]), kernel) - labels) ** 2)
    tf1.summary.scalar("twice", 2 * loss)
    tf1.summary.histogram("kernel_values", kernel, family="weights")
    tf1.summary.image("pictures", images, max_outputs=2)
    tf1.summary.text("note", "a *text*")
    merged = tf1.summary.merge_all()
    assert list(merged) == ["twice", "weights/weights/kernel_values", "pictures", "note"]
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    hooks = []
    if params.get("own_hook"):
        some = tf1.summary.merge([tf1.summary.scalar("half", loss / 2), tf1.summary.histogram("k", kernel)])
        hooks = [tf1.train.SummarySaverHook(2, output_dir=params["own_hook"], summary_op=some)]
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=tf1.train.get_global_step()),
        training_hooks=hooks,
    )


def input_fn() -> Any:
    x = np.linspace(0, 1, 8 * 4, dtype=np.float32).reshape(8, 2, 2, 1)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, np.ones((8, 1), np.float32))).batch(8).repeat()


@pytest.mark.parametrize("devices", [1, 2])
def test_an_estimator_writes_all_summaries_of_its_step(tmp_path: Path, devices: int) -> None:
    strategy = MirroredStrategy(jax.devices()[:devices]) if devices > 1 else None
    config = tf.estimator.RunConfig(save_summary_steps=2, train_distribute=strategy)
    estimator = tf.estimator.Estimator(
        model_fn, str(tmp_path / "m"), config, params={"own_hook": str(tmp_path / "own")}
    )
    estimator.train(input_fn, steps=5)
    found = accumulated(tmp_path / "m")
    assert [event.step for event in found.Scalars("twice")] == [1, 3, 5]
    assert [event.step for event in found.Tensors("weights/weights/kernel_values")] == [1, 3, 5]
    assert found.Tensors("note")[0].tensor_proto.string_val == [b"a *text*"]
    picture = found.Tensors("pictures")[0].tensor_proto.string_val
    assert picture[:2] == [b"2", b"2"]
    assert len(picture) == 4
    assert all(each.startswith(b"\x89PNG") for each in picture[2:])
    for tag, plugin in (("weights/weights/kernel_values", "histograms"), ("pictures", "images")):
        assert found.SummaryMetadata(tag).plugin_data.plugin_name == plugin
    own = accumulated(tmp_path / "own")
    assert [event.step for event in own.Scalars("half")] == [1, 3, 5]
    assert own.Scalars("half")[0].value == pytest.approx(found.Scalars("twice")[0].value / 4)
    histogram = np.frombuffer(own.Tensors("k")[0].tensor_proto.tensor_content).reshape(-1, 3)
    assert histogram[:, 2].sum() == 4 * devices  # each replica has the kernel


def test_a_file_writer_takes_messages(tmp_path: Path) -> None:
    with tf1.summary.FileWriter(str(tmp_path), graph=None) as writer:
        writer.add_summary(tf1.Summary(value=[tf1.Summary.Value(tag="loss", simple_value=0.5)]), 3)
        message = tf1.Summary()
        message.value.add(tag="rate", simple_value=2.0)
        png = b"\x89PNG"
        message.value.add(tag="picture", image=tf1.Summary.Image(height=1, width=2, encoded_image_string=png))
        histogram = tf1.HistogramProto(min=0, max=1, num=2, sum=1, sum_squares=1)
        histogram.bucket_limit.extend([0.5, 1.0])
        histogram.bucket.extend([1, 1])
        message.value.add(tag="spread", histo=histogram)
        writer.add_summary(message.SerializeToString(), global_step=4)
        writer.add_graph(None)
        writer.flush()
        assert writer.get_logdir() == str(tmp_path)
    found = accumulated(tmp_path)
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [(3, 0.5)]
    assert [(event.step, event.value) for event in found.Scalars("rate")] == [(4, 2.0)]
    assert found.Images("picture")[0].encoded_image_string == png
    assert found.Histograms("spread")[0].histogram_value.bucket == [1.0, 1.0]
    (file,) = tmp_path.iterdir()
    read = {
        value.tag: value.simple_value
        for event in tf1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.HasField("simple_value")
    }
    assert read == {"loss": 0.5, "rate": 2.0}


def test_the_cache_has_a_writer_a_folder(tmp_path: Path) -> None:
    cache = tf1.summary.FileWriterCache
    first = cache.get(str(tmp_path / "a"))
    assert cache.get(str(tmp_path / "a")) is first
    assert cache.get(str(tmp_path / "b")) is not first
    first.add_summary({"loss": np.float32(1.5), "many": np.arange(3)}, 1)
    cache.clear()
    found = accumulated(tmp_path / "a")
    assert found.Scalars("loss")[0].value == 1.5
    assert "many" in found.Tags()["tensors"]
    assert cache.get(str(tmp_path / "a")) is not first
    cache.clear()


def test_a_hook_writes_what_it_asks_for(tmp_path: Path) -> None:
    class Writes(SessionRunHook):
        def begin(self) -> None:
            self.writer = tf1.summary.FileWriterCache.get(str(tmp_path / "hook"))

        def before_run(self, run_context: Any) -> SessionRunArgs:
            return SessionRunArgs(["loss", "global_step"])

        def after_run(self, run_context: Any, run_values: Any) -> None:
            loss, step = run_values.results
            value = tf1.Summary.Value(tag="seen", simple_value=loss)
            self.writer.add_summary(tf1.Summary(value=[value]), step)

        def end(self, session: Any) -> None:
            self.writer.flush()

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "m"), params={})
    estimator.train(input_fn, steps=3, hooks=[Writes()])
    tf1.summary.FileWriterCache.clear()
    assert [event.step for event in accumulated(tmp_path / "hook").Scalars("seen")] == [1, 2, 3]


def test_writers_of_tensorflow_2(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(), tf.summary.record_if(True):
        assert tf.summary.experimental.get_step() is None
        tf.summary.experimental.set_step(7)
        tf.summary.scalar("loss", data=0.25)
        tf.summary.histogram("h", data=[1.0, 2.0], buckets=2)
        tf.summary.image("i", data=np.zeros((1, 2, 2, 3), np.uint8), max_outputs=1)
        tf.summary.text("t", data="hello")
        tf.summary.experimental.set_step(None)
        assert tf.summary.should_record_summaries()
    writer.close()
    assert not tf.summary.should_record_summaries()
    found = accumulated(tmp_path)
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [(7, 0.25)]
    assert set(found.Tags()["tensors"]) == {"h", "i", "t"}


def test_contrib_summaries_of_a_function(tmp_path: Path) -> None:
    summary = tf.contrib.summary
    writer = summary.create_file_writer(str(tmp_path))

    @tf.function
    def host_call(step: Any, loss: Any) -> None:
        with writer.as_default(), summary.record_summaries_every_n_global_steps(2, step):
            summary.scalar("loss", loss, step=step)

    for step in range(4):
        host_call(np.int32(step), np.float32(step))
    writer.flush()
    assert [event.step for event in accumulated(tmp_path).Scalars("loss")] == [0, 2]


def test_a_summary_with_a_step_is_of_the_default_writer(tmp_path: Path) -> None:
    def step(x: Any) -> dict[str, Any]:
        assert not tf.summary.scalar("x", x, step=3)
        assert not tf.summary.histogram("x", x, step=tf1.train.get_or_create_global_step())
        assert tf1.summary.merge_all() is None
        return {"x": x}

    assert outputs_of(step)["x"] == 1


def test_wrong_summaries_of_a_step(tmp_path: Path) -> None:
    def flat(features: Any, mode: str) -> Any:
        tf1.summary.image("flat", features)

    with pytest.raises(ValueError, match=r"'flat' must have the shape .*got \(1,\)"):
        tf.estimator.Estimator(flat, str(tmp_path)).train(lambda: np.ones((1,), np.float32), steps=1)


def test_tags_of_tensorflow_1_have_scopes_and_are_clean() -> None:
    def step(_: Any) -> dict[str, Any]:
        with tf1.name_scope("a"):
            tf1.summary.scalar("cross entropy", 1.0, None, "kind")
            for _ in range(2):
                tf1.summary.scalar("x", 2.0)
            tf1.summary.image("pictures", np.zeros([2, 2, 2, 3], np.float32), 1)
        with tf1.name_scope("a"):
            tf1.summary.scalar("x", 3.0)
        tf1.summary.scalar("accuracy", tf1.metrics.accuracy([1], [1])[0])
        with pytest.raises(TypeError, match="takes tensor, max_outputs, collections, family"):
            tf1.summary.image("p", None, 1, None, None, 1)
        tags = ["kind/a/kind/cross_entropy", "a/x", "a/x_1", "a/pictures", "a_1/x", "accuracy"]
        assert list(tf1.summary.merge_all()) == tags
        return {}

    outputs_of(step)
