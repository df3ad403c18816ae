"""Summaries of the default writer, as TensorBoard's own reader and plugins see them."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import muster
from muster import distribute, summary
from muster._keras import keras
from muster.distribute import MirroredStrategy
from muster.summary import _hparams

DEADLINE = 60.0

pytestmark = pytest.mark.filterwarnings("ignore:html5lib's sanitizer is deprecated:DeprecationWarning")


def provider(logdir: Path) -> Any:
    """Return what TensorBoard's plugins read."""
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(logdir))
    multiplexer.Reload()
    return MultiplexerDataProvider(multiplexer, str(logdir))


def context() -> Any:
    from tensorboard.context import RequestContext

    return RequestContext()


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_tensorboards_graphs_page_shows_keras_models(tmp_path: Path, kind: str) -> None:
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.graph.graphs_plugin import GraphsPlugin

    first, last = keras.layers.Dense(3, name="first"), keras.layers.Dense(1, name="last")
    if kind == "sequential":
        model = keras.Sequential([keras.Input((2,)), first, last], name="model")
    else:
        one, two = keras.Input((1,), name="one"), keras.Input((1,), name="two")
        model = keras.Model([one, two], last(first(keras.layers.Concatenate()([one, two]))), name="model")
    with summary.EventFileWriter(tmp_path / "train") as writer:
        writer.add_keras_model("keras", model.to_json(), 0)
    graphs = GraphsPlugin(TBContext(data_provider=provider(tmp_path), logdir=str(tmp_path)))
    found = graphs.info_impl(context(), "")
    assert found["train"]["tags"]["keras"]["conceptual_graph"] is True
    drawn, _ = graphs.graph_impl(context(), "train", "keras", True, "")
    assert "model/first" in drawn
    assert 'input: "model/first"' in drawn[drawn.index('name: "model/last"') :]


def steps_of(logdir: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for event in summary.read_events(logdir):
        assert isinstance(event.value, float)
        found.setdefault(event.tag, []).append((event.step, event.value))
    return found


def test_scalars_go_to_the_default_writer(tmp_path: Path) -> None:
    assert not summary.scalar("nowhere", 1.0, step=0)
    writer = summary.create_file_writer(tmp_path)
    with writer.as_default():
        for step in range(3):
            assert summary.scalar("loss", np.float32(step / 2), step=step)
        with summary.record_if(False):
            assert not summary.scalar("loss", 9.0, step=9)
        with summary.record_if(lambda: True):
            assert summary.scalar("loss", keras.Variable(4.0), step=keras.Variable(3, dtype="int32"))
    assert not summary.scalar("nowhere", 1.0, step=0)
    writer.flush()
    assert steps_of(tmp_path) == {"loss": [(0, 0.0), (1, 0.5), (2, 1.0), (3, 4.0)]}


def test_the_default_step(tmp_path: Path) -> None:
    writer = summary.create_file_writer(tmp_path)
    step = keras.Variable(5, dtype="int32")
    with writer.as_default():
        with pytest.raises(ValueError, match="has no step. Give step="):
            summary.scalar("loss", 1.0)
        summary.set_step(step)
        summary.scalar("loss", 1.0)
        step.assign_add(2)
        summary.scalar("loss", 2.0)
        summary.set_step(None)
    with writer.as_default(step=9):
        summary.scalar("loss", 3.0)
        assert summary.get_step() == 9
    assert summary.get_step() is None
    writer.close()
    assert steps_of(tmp_path) == {"loss": [(5, 1.0), (7, 2.0), (9, 3.0)]}


@pytest.mark.processes
def test_a_writer_that_nobody_closes_is_written_at_the_end(tmp_path: Path) -> None:
    code = (
        "import sys; from muster import summary\n"
        "writer = summary.create_file_writer(sys.argv[1])\n"
        "writer.set_as_default()\n"
        "summary.scalar('loss', 2.0, step=1)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=DEADLINE)
    assert steps_of(tmp_path) == {"loss": [(1, 2.0)]}


def test_functions_write_in_each_run(tmp_path: Path) -> None:
    writer = summary.create_file_writer(tmp_path)

    @muster.function
    def train(step: Any, x: Any) -> Any:
        with writer.as_default(), summary.record_if(step % 2 == 0):
            summary.scalar("sum", jnp.sum(x), step=step)
            summary.histogram("x", x, step=step)
        return x + 1

    x = jnp.ones(4)
    for step in range(5):
        x = train(jnp.asarray(step), x)
    writer.flush()
    assert steps_of(tmp_path) == {"sum": [(0, 4.0), (2, 12.0), (4, 20.0)]}


def test_of_the_replicas_the_first_one_writes(tmp_path: Path) -> None:
    strategy = MirroredStrategy(jax.devices()[:2])
    writer = summary.create_file_writer(tmp_path)

    @muster.function
    def train(batch: Any) -> Any:
        def replica(rows: Any) -> None:
            summary.scalar("rows", jnp.sum(rows), step=jnp.asarray(3))

        with writer.as_default():
            strategy.run(replica, args=(batch,))

    data = muster.data.Dataset.from_tensor_slices(np.arange(4.0, dtype=np.float32)).batch(4)
    for batch in strategy.experimental_distribute_dataset(data):
        train(batch)
    writer.flush()
    assert steps_of(tmp_path) == {"rows": [(3, 1.0)]}
    assert distribute.get_strategy() is not strategy


def test_tensorboard_shows_histograms(tmp_path: Path) -> None:
    values = np.concatenate([np.zeros(10), np.ones(30), [np.nan, np.inf]])
    with summary.create_file_writer(tmp_path).as_default() as writer:
        summary.histogram("weights", values, step=1, buckets=4, description="all of them")
        summary.histogram("weights", np.full((3, 3), 2.5), step=2)
        summary.histogram("weights", [], step=3)
        writer.flush()
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.histogram.histograms_plugin import HistogramsPlugin

    plugin = HistogramsPlugin(TBContext(data_provider=provider(tmp_path)))
    assert plugin.index_impl(context(), "") == {
        ".": {"weights": {"displayName": "", "description": "<p>all of them</p>"}}
    }
    events, _ = plugin.histograms_impl(context(), "weights", ".", "")
    rows = [(step, buckets) for _, step, buckets in events]
    assert rows[0] == (1, [[0.0, 0.25, 10.0], [0.25, 0.5, 0.0], [0.5, 0.75, 0.0], [0.75, 1.0, 30.0]])
    assert rows[1][1][-1] == [2.5, 2.5, 9.0]
    assert rows[2] == (3, [])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_tensorboard_shows_images(tmp_path: Path, channels: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 3, channels), np.uint8)
    with summary.create_file_writer(tmp_path).as_default() as writer:
        summary.image("digits", pixels, step=4, max_outputs=2)
        writer.flush()
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.image.images_plugin import ImagesPlugin

    data = provider(tmp_path)
    plugin = ImagesPlugin(TBContext(data_provider=data))
    assert plugin._index_impl(context(), "")["."]["digits"]["samples"] == 2
    found = plugin._image_response_for_run(context(), "", ".", "digits", 1)
    (answer,) = found
    assert answer["step"] == 4
    blob = data.read_blob(context(), blob_key=answer["query"].removeprefix("blob_key="))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(blob))).reshape(7, 3, channels), pixels[1])


def test_floats_become_bytes_of_an_image(tmp_path: Path) -> None:
    from muster.summary._images import encode_images

    pixels = np.array([-1.0, 0.0, 0.5, 1.0, 7.0, np.nan]).reshape(1, 2, 3, 1)
    width, height, (png,) = encode_images(pixels, 3)
    assert (width, height) == (3, 2)
    assert np.asarray(Image.open(io.BytesIO(png))).reshape(-1).tolist() == [0, 0, 127, 255, 255, 0]
    with pytest.raises(ValueError, match=r"shape \(batch, height, width, channels\).* got \(2, 2\)"):
        encode_images(np.zeros((2, 2)), 3)


def test_tensorboard_shows_texts(tmp_path: Path) -> None:
    with summary.create_file_writer(tmp_path).as_default() as writer:
        summary.text("note", "*all* is well", step=1)
        summary.text("list", ["a", "b"], step=2)
        writer.flush()
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.text.text_plugin import TextPlugin

    plugin = TextPlugin(TBContext(data_provider=provider(tmp_path)))
    assert set(plugin.index_impl(context(), "")["."]) == {"list", "note"}
    (note,) = plugin.text_impl(context(), ".", "note", "", True)
    assert (note["step"], note["text"]) == (1, "<p><em>all</em> is well</p>")
    (listed,) = plugin.text_impl(context(), ".", "list", "", True)
    assert listed["text"].count("<td>") == 2


def test_tensorboard_compares_hyperparameters(tmp_path: Path) -> None:
    units = summary.HParam("units", summary.Discrete([16, 32]), display_name="Units")
    rate = summary.HParam("rate", summary.RealInterval(0.1, 0.2), description="of learning")
    kind = summary.HParam("kind", summary.Discrete(["sgd", "adam"]))
    with summary.create_file_writer(tmp_path).as_default() as writer:
        assert summary.hparams_config([units, rate, kind], [summary.Metric("accuracy", display_name="Acc")])
        writer.close()
    for number, count in enumerate(units.domain.values):
        with summary.create_file_writer(tmp_path / f"run-{number}").as_default() as writer:
            summary.hparams({units: np.int64(count), rate: np.float32(0.125), "kind": "adam", "flag": True})
            summary.scalar("accuracy", 0.5 + number / 4, step=1)
            writer.events.add_hparams_end()
            writer.close()
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

    plugin = backend_context.Context(TBContext(data_provider=provider(tmp_path)))
    found = get_experiment.Handler(
        context(), plugin, "", api_pb2.GetExperimentRequest(include_metrics=True)
    ).run()
    infos = {each.name: each for each in found.hparam_infos}
    assert set(infos) == {"units", "rate", "kind"}
    assert infos["units"].display_name == "Units"
    assert [each.number_value for each in infos["units"].domain_discrete.values] == [16, 32]
    assert (infos["rate"].domain_interval.min_value, infos["rate"].description) == (0.1, "of learning")
    assert [each.display_name for each in found.metric_infos] == ["Acc"]
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=10,
        col_params=[api_pb2.ColParams(metric=api_pb2.MetricName(tag="accuracy"), order=api_pb2.ORDER_DESC)],
        allowed_statuses=[api_pb2.STATUS_SUCCESS],
        aggregation_type=api_pb2.AGGREGATION_AVG,
        include_metrics=True,
    )
    groups = list_session_groups.Handler(context(), plugin, "", request).run().session_groups
    assert [(g.hparams["units"].number_value, g.metric_values[0].value) for g in groups] == [
        (32.0, 0.75),
        (16.0, 0.5),
    ]
    assert groups[0].hparams["kind"].string_value == "adam"
    assert groups[0].hparams["flag"].bool_value
    assert groups[0].name != groups[1].name


def test_wrong_hyperparameters() -> None:
    with pytest.raises(TypeError, match=r"'sizes' must be a number, a truth value or a text, got \[1\]"):
        _hparams.values_by_name({"sizes": [1]})
    with pytest.raises(ValueError, match="several values of the hyperparameter 'a'"):
        _hparams.values_by_name({"a": 1, summary.HParam("a"): 2})
    with pytest.raises(TypeError, match="must be of type float, got 1"):
        summary.RealInterval(1, 2.0)
    with pytest.raises(ValueError, match="min_value must be <= max_value, got 3 and 2"):
        summary.IntInterval(3, 2)
    with pytest.raises(TypeError, match="but not 'x'"):
        summary.Discrete([1, "x"])
    with pytest.raises(ValueError, match="needs a dtype"):
        summary.Discrete([])


@pytest.mark.parametrize("early", [True, False])
def test_a_profile_is_where_either_end_of_the_trace_says(early, tmp_path, monkeypatch):
    folders = []
    monkeypatch.setattr(jax.profiler, "start_trace", folders.append)
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: (Path(folders[-1]) / "profile").write_text("p"))
    with pytest.raises(ValueError, match="Must enable trace before export"):
        muster.summary.trace_export("a", step=0)
    muster.summary.trace_on(profiler=True, **({"profiler_outdir": str(tmp_path)} if early else {}))
    if not early:
        with pytest.raises(ValueError, match="`profiler_outdir` is not specified"):
            muster.summary.trace_export("a", step=0)
    muster.summary.trace_export("a", step=0, profiler_outdir=None if early else str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["profile"]
    muster.summary.trace_on(profiler=True)
    muster.summary.trace_off()
    assert not Path(folders[-1]).exists()
    with pytest.raises(ValueError, match="Must enable trace before export"):
        muster.summary.trace_export("a", step=0)


def test_the_end_of_a_block_writes_what_is_there(tmp_path: Path) -> None:
    writer = summary.create_file_writer(tmp_path)
    with writer.as_default():
        summary.scalar("a", 1.0, step=0)
        summary.scalar("b", 2.0, step=0)
    assert steps_of(tmp_path) == {"a": [(0, 1.0)], "b": [(0, 2.0)]}
    with contextlib.suppress(LookupError), writer.as_default():
        summary.scalar("c", 3.0, step=0)
        raise LookupError
    assert steps_of(tmp_path)["c"] == [(0, 3.0)]
    assert summary.default_writer() is None


def test_a_failure_of_a_step_does_not_lose_what_was_written_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed() -> None:
        raise RuntimeError("a callback has failed")

    for end in ("flush", "close"):
        writer = summary.create_file_writer(tmp_path / end)
        writer.await_steps()
        writer.set_as_default()
        summary.scalar("a", 1.0, step=0)
        summary.scalar("a", 2.0, step=1)
        with monkeypatch.context() as patched:
            patched.setattr(jax, "effects_barrier", failed)
            with pytest.raises(RuntimeError, match="a callback has failed"):
                getattr(writer, end)()
        assert steps_of(tmp_path / end) == {"a": [(0, 1.0), (1, 2.0)]}
        writer.close()
    summary.create_noop_writer().set_as_default()
