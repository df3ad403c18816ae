"""Event files: what TensorBoard reads in them, and what is left of one whose writer was killed."""

import logging
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from muster._errors import SummaryError
from muster._records import frame
from muster.summary import Event, EventFileWriter, SessionLog, create_file_writer, read_events
from muster.summary import _messages as messages

DEADLINE = 60.0


def found(logdir: Path) -> list[tuple[Any, ...]]:
    return [(event.step, event.tag, event.value, event.status) for event in read_events(logdir)]


def accumulated(logdir: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(logdir), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_is_that_of_rfc_3720(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@pytest.mark.parametrize("size", [127, 128, 1023, 1024, 1027, 1151, 1152, 33_000])
def test_crc32c_of_much_is_that_of_byte_after_byte(size: int) -> None:
    table = [0] * 256
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table[byte] = crc
    data = random.Random(size).randbytes(size)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    assert crc32c(data) == crc ^ 0xFFFFFFFF


def test_what_is_written_is_read(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path / "eval") as writer:
        writer.add_session_log(SessionLog.START, 1)
        writer.add_scalar("loss", 0.75, 1)
        writer.add_scalars({"accuracy": np.float64(0.5), "Größe/模型": np.array(2, np.int32)}, 2**40)
        writer.add_text("checkpoint_path", "/m/ckpt-1 — ü", 1)
        writer.add_session_log(SessionLog.CHECKPOINT, 2, "/m/ckpt-2")
    assert found(tmp_path / "eval") == [
        (1, "session_log", "", SessionLog.START),
        (1, "loss", 0.75, None),
        (2**40, "accuracy", 0.5, None),
        (2**40, "Größe/模型", 2.0, None),
        (1, "checkpoint_path", "/m/ckpt-1 — ü", None),
        (2, "session_log", "/m/ckpt-2", SessionLog.CHECKPOINT),
    ]


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path) as writer:
        for step in range(300):
            writer.add_scalars({"loss": step / 7, "a/b": -step}, step)
        writer.add_text("checkpoint_path", "/m/ckpt-299", 299)
    accumulator = accumulated(tmp_path)
    assert accumulator.Tags()["scalars"] == ["loss", "a/b"]
    assert [(e.step, e.value) for e in accumulator.Scalars("loss")] == [
        (step, np.float32(step / 7)) for step in range(300)
    ]
    (text,) = accumulator.Tensors("checkpoint_path")
    assert text.tensor_proto.string_val == [b"/m/ckpt-299"]
    assert accumulator.SummaryMetadata("checkpoint_path").plugin_data.plugin_name == "text"
    ours = list(read_events(tmp_path))
    assert [e.wall_time for e in accumulator.Scalars("loss")] == [
        e.wall_time for e in ours if e.tag == "loss"
    ]


def test_tensorboard_drops_what_a_restart_repeats(tmp_path: Path) -> None:
    """A run goes to step 5, dies, and starts again from step 3."""
    for start, stop in ((0, 6), (3, 8)):
        with EventFileWriter(tmp_path) as writer:
            writer.add_session_log(SessionLog.START, start)
            for step in range(start, stop):
                writer.add_scalar("loss", 10 * start + step, step)
    scalars = accumulated(tmp_path).Scalars("loss")
    assert [(e.step, e.value) for e in scalars] == [(s, s) for s in range(3)] + [
        (s, 30 + s) for s in range(3, 8)
    ]


def test_the_messages_are_the_protocol_buffers(tmp_path: Path) -> None:
    from tensorboard.compat.proto import event_pb2

    def parsed(data: bytes) -> Any:
        return event_pb2.Event.FromString(data)

    assert parsed(messages.file_version(1.5)).file_version == "brain.Event:2"
    event = parsed(messages.session_log(1.5, 9, SessionLog.STOP, "p"))
    assert (event.wall_time, event.step) == (1.5, 9)
    assert (event.session_log.status, event.session_log.checkpoint_path) == (event.session_log.STOP, "p")
    (value,) = parsed(messages.text(1.5, 9, "t", "ü" * 100)).summary.value
    assert (value.tensor.dtype, value.tensor.string_val) == (7, [("ü" * 100).encode()])
    assert value.tensor.HasField("tensor_shape")


@given(
    values=st.dictionaries(st.text(st.characters(codec="utf-8")), st.floats(width=32)),
    step=st.integers(0, 2**63 - 1),
    wall_time=st.floats(),
)
def test_scalars_as_protobuf_reads_and_writes_them(
    values: dict[str, float], step: int, wall_time: float
) -> None:
    from tensorboard.compat.proto import event_pb2

    event = event_pb2.Event.FromString(messages.scalars(wall_time, step, values.items()))
    assert event.step == step
    assert repr(event.wall_time) == repr(wall_time)
    assert repr({v.tag: v.simple_value for v in event.summary.value}) == repr(values)
    back = list(messages.parse_event(event.SerializeToString()))
    assert repr(back) == repr([Event(step, wall_time, tag, value) for tag, value in values.items()])


def test_fields_of_others_are_skipped(tmp_path: Path) -> None:
    from tensorboard.compat.proto import event_pb2
    from tensorboard.compat.proto.summary_pb2 import Summary

    event = event_pb2.Event(wall_time=1.0, step=4)
    event.summary.value.add(tag="image", image=Summary.Image(height=1, encoded_image_string=b"x"))
    event.summary.value.add(tag="loss", simple_value=2.0, node_name="n")
    graph = event_pb2.Event(wall_time=1.0, graph_def=b"graph")
    (tmp_path / "events.out.tfevents.1").write_bytes(
        frame(event.SerializeToString()) + frame(graph.SerializeToString())
    )
    assert list(read_events(tmp_path)) == [Event(4, 1.0, "loss", 2.0)]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-45])
def test_special_values(tmp_path: Path, value: float) -> None:
    with EventFileWriter(tmp_path) as writer:
        writer.add_scalar("loss", value, 0)
    ((_, _, read, _),) = found(tmp_path)
    assert repr(read) == repr(float(np.float32(value)))
    (scalar,) = accumulated(tmp_path).Scalars("loss")
    assert repr(scalar.value) == repr(read)


@pytest.mark.parametrize("sign", [1, -1])
def test_too_large_for_float32_is_infinite(tmp_path: Path, sign: int) -> None:
    with EventFileWriter(tmp_path) as writer:
        writer.add_scalar("loss", sign * 1e300, 0)
    assert found(tmp_path)[0][2] == sign * math.inf


def test_events_wait_in_memory_until_a_flush(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path, flush_secs=1e9) as writer:
        writer.add_scalar("loss", 1, 1)
        assert found(tmp_path) == []
        writer.flush()
        assert len(found(tmp_path)) == 1
        for step in range(3000):  # more than are kept in memory
            writer.add_scalar("loss", 1, step)
        assert 1 < len(found(tmp_path)) < 3001
    assert len(found(tmp_path)) == 3001


def test_events_are_written_when_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.summary import _event_files

    clock = [100.0]
    monkeypatch.setattr(_event_files.time, "monotonic", lambda: clock[0])
    with EventFileWriter(tmp_path) as writer:
        for clock[0], expected in ((109.0, 0), (111.0, 2), (120.0, 2), (121.0, 4)):
            writer.add_scalar("loss", 1, 1)
            assert len(found(tmp_path)) == expected


def test_no_more_events_wait_than_a_writer_of_summaries_keeps(tmp_path: Path) -> None:
    writer = create_file_writer(tmp_path, max_queue=2)
    with writer.events as events:
        for step, expected in enumerate((0, 0, 3, 3)):
            events.add_scalar("loss", 1, step)
            assert len(found(tmp_path)) == expected


def test_any_prefix_can_be_read(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", step, step)
    file = Path(writer.path)
    whole = file.read_bytes()
    counts = []
    for length in range(len(whole) + 1):
        file.write_bytes(whole[:length])
        counts.append(len(list(read_events(tmp_path))))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_a_damaged_file_is_read_up_to_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EventFileWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", step, step)
    with EventFileWriter(tmp_path) as other:
        other.add_scalar("loss", 3, 3)
    file = Path(writer.path)
    whole = bytearray(file.read_bytes())
    with caplog.at_level(logging.WARNING):
        for position in range(len(whole)):
            caplog.clear()
            file.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            steps = [event.step for event in read_events(tmp_path)]
            assert steps in ([3], [0, 3], [0, 1, 3])
            assert f"{file}: The record at byte" in caplog.text


@pytest.mark.processes
def test_a_killed_writer_leaves_what_it_flushed(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from muster.summary import EventFileWriter
writer = EventFileWriter(sys.argv[1])
for step in range(10):
    writer.add_scalar("loss", step, step)
writer.flush()
writer.add_scalar("loss", 99, 99)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], timeout=DEADLINE)
    assert done.returncode == -9
    assert [event.step for event in read_events(tmp_path)] == list(range(10))
    assert [event.step for event in accumulated(tmp_path).Scalars("loss")] == list(range(10))


def test_writers_at_the_same_moment_have_files_of_their_own(tmp_path: Path) -> None:
    writers = [EventFileWriter(tmp_path, filename_suffix=".train") for _ in range(3)]
    for step, writer in enumerate(writers):
        writer.add_scalar("loss", step, step)
        writer.close()
    assert [event.step for event in read_events(tmp_path)] == [0, 1, 2]
    assert all(name.endswith(".train") and "tfevents" in name for name in os.listdir(tmp_path))


def test_a_file_comes_after_those_of_a_machine_whose_clock_is_ahead(tmp_path: Path) -> None:
    """TensorBoard, which reads files in order, would not see it otherwise."""
    with EventFileWriter(tmp_path) as first:
        first.add_scalar("loss", 1.0, 1)
    host = os.path.basename(first.path).split(".", 4)[-1]
    ahead = tmp_path / f"events.out.tfevents.9000000000.{host}"
    os.rename(first.path, ahead)
    with EventFileWriter(tmp_path) as second:
        second.add_scalar("loss", 2.0, 2)
    assert os.path.basename(second.path).startswith("events.out.tfevents.9000000001.")
    assert [event.step for event in read_events(tmp_path)] == [1, 2]


def test_threads_share_a_writer(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path, flush_secs=0.0) as writer:

        def write(tag: str) -> None:
            for step in range(200):
                writer.add_scalar(tag, step, step)

        threads = [threading.Thread(target=write, args=(tag,)) for tag in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
    events = list(read_events(tmp_path))
    for tag in "abcd":
        assert [event.step for event in events if event.tag == tag] == list(range(200))


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/nothing/here"])
def test_a_directory_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SummaryError, match="Summaries cannot be written to .* Choose a directory") as info:
        EventFileWriter(tmp_path / where)
    assert isinstance(info.value.__cause__, OSError)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.summary import _event_files

    def full(path: str, mode: str, **options: Any) -> Any:
        return open("/dev/full", "wb", **options)

    monkeypatch.setattr(_event_files, "open", full, raising=False)
    writer = EventFileWriter(tmp_path)
    writer.add_scalar("loss", 1, 1)
    for call in (writer.flush, writer.close):
        with pytest.raises(SummaryError, match=r"tfevents.* cannot be written: No space left on device"):
            call()


def test_wrong_arguments(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match="must be >= 0, not -1"):
            writer.add_scalar("loss", 1, -1)
        with pytest.raises(ValueError, match="could not convert"):
            writer.add_scalar("loss", "much", 1)  # type: ignore[arg-type]
        writer.add_scalar("loss", 1, 1)
    assert len(found(tmp_path)) == 1
    writer.close()
    with pytest.raises(SummaryError, match="is closed"):
        writer.add_scalar("loss", 1, 1)


def test_no_directory_has_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "none")) == []


@pytest.mark.processes
def test_importing_it_is_light() -> None:
    heavy = ("jax", "keras", "tensorboard", "google", "numpy")
    code = f"import sys, muster.summary; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert done.stdout == "[]\n"
