"""What tasks tell each other survives the wire, and nothing else gets through."""

import contextlib
import dataclasses
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster import Task
from muster.cluster.roster._roster_messages import (
    Progress,
    RosterHello,
    Status,
    TaskState,
    decode_hello,
    decode_news,
    encode_beat,
    encode_hello,
    encode_status,
)
from muster.net import FrameBuffer, ProtocolError

names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)
tasks = st.builds(Task, names, st.integers(0, 10**6))
integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.none() | st.floats(allow_nan=False)
progresses = st.builds(
    Progress,
    state=st.sampled_from(TaskState),
    step=st.none() | integers,
    steps_per_sec=numbers,
    loss=numbers,
    input_wait=numbers,
    waits_for=names,
)
values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
statuses = st.builds(
    Status,
    job=names,
    task=tasks,
    run=names,
    pid=integers,
    host=names,
    versions=st.dictionaries(names, names, max_size=3),
    training=st.lists(tasks, max_size=3).map(tuple),
    reached=st.dictionaries(names, names, max_size=3),
    progress=progresses,
    error=names,
    blamed=st.none() | tasks,
    announcements=st.dictionaries(names, values, max_size=3),
)


def unframed(frame):
    """Return the message of a frame."""
    (message,) = FrameBuffer(len(frame)).feed(frame)
    return message


@given(statuses)
def test_a_status_survives(status):
    assert decode_news(unframed(encode_status(status))) == status


@given(progresses)
def test_a_beat_survives(progress):
    assert decode_news(unframed(encode_beat(progress))) == progress


def test_a_loss_that_is_no_number_survives():
    read = decode_news(unframed(encode_beat(Progress(loss=math.nan, steps_per_sec=math.inf))))
    assert math.isnan(read.loss)
    assert read.steps_per_sec == math.inf


@given(statuses, st.booleans())
def test_a_caller_says_only_who_it_is(status, watch):
    read = decode_hello(unframed(encode_hello(RosterHello(watch=watch, caller=status))))
    assert read.watch is watch
    assert (read.caller.job, read.caller.task, read.caller.run) == (status.job, status.task, status.run)
    assert read.caller == dataclasses.replace(
        Status(job="", task=status.task, run="", pid=0, host=""),
        **{name: getattr(status, name) for name in ("job", "run", "pid", "host")},
    )


def test_a_caller_may_be_no_task():
    assert decode_hello(unframed(encode_hello(RosterHello(watch=False)))) == RosterHello(watch=False)


@given(st.binary() | values.map(msgspec.msgpack.encode))
def test_other_bytes_are_a_protocol_error(message):
    for decode in (decode_news, decode_hello):
        with contextlib.suppress(ProtocolError):
            assert decode(message) == RosterHello(
                watch=False
            )  # the one message that is small enough to be drawn


broken = values | st.just(float("nan")) | st.lists(values, min_size=2, max_size=3)


@given(statuses, st.data())
def test_a_status_with_a_wrong_part_is_read_or_is_a_protocol_error(status, data):
    message = msgspec.msgpack.decode(unframed(encode_status(status)))
    part = data.draw(st.sampled_from([message, message["status"], message["status"]["progress"]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(broken)
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode_news(msgspec.msgpack.encode(message)), Status)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"{" * 100_000, "it sends b'{{{"),
        (msgspec.msgpack.encode({}), "without news"),
        (msgspec.msgpack.encode({"progress": {"state": "asleep"}}), "'asleep' - at `$.progress.state`"),
        (msgspec.msgpack.encode({"progress": {"loss": "low"}}), "got `str` - at `$.progress.loss`"),
    ],
)
def test_a_protocol_error_says_what_was_received(message, says):
    with pytest.raises(ProtocolError) as raised:
        decode_news(message)
    assert says in str(raised.value)
    assert len(str(raised.value)) < 300


def test_control_characters_of_others_are_shown_as_text():
    evil = "\x1b]0;title\x07\x1b[2J\x9bA"
    sent = Status(
        job=evil,
        task=Task(evil, 0),
        run="r",
        pid=1,
        host=evil,
        versions={evil: evil},
        error=f"\x1b[1m{evil}\n\tat",
    )
    got = decode_news(unframed(encode_status(sent)))
    shown = "\\x1b]0;title\\x07\\x1b[2J\\x9bA"
    assert got == dataclasses.replace(
        sent, job=shown, task=Task(shown, 0), host=shown, versions={shown: shown}, error=f"{shown}\n\tat"
    )
