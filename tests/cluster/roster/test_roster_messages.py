"""What tasks tell each other survives the wire, and nothing else gets through."""

import contextlib
import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster import Task
from muster.cluster.roster._roster_messages import (
    MAX_HELLO,
    Hello,
    LineBuffer,
    Progress,
    ProtocolError,
    Status,
    TaskState,
    decode_hello,
    decode_news,
    encode_beat,
    encode_hello,
    encode_refusal,
    encode_status,
)

names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)
tasks = st.builds(Task, names, st.integers(0, 10**6))
numbers = st.none() | st.floats(allow_nan=False)
progresses = st.builds(
    Progress,
    state=st.sampled_from(TaskState),
    step=st.none() | st.integers(),
    steps_per_sec=numbers,
    loss=numbers,
    input_wait=numbers,
    waits_for=names,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
statuses = st.builds(
    Status,
    job=names,
    task=tasks,
    run=names,
    pid=st.integers(),
    host=names,
    versions=st.dictionaries(names, names, max_size=3),
    training=st.lists(tasks, max_size=3).map(tuple),
    reached=st.dictionaries(tasks, names, max_size=3),
    progress=progresses,
    error=names,
    blamed=st.none() | tasks,
    announcements=st.dictionaries(names, values, max_size=3),
)


@given(statuses)
def test_a_status_survives(status):
    line = encode_status(status)
    assert line.count(b"\n") == 1
    assert decode_news(line) == status


@given(progresses)
def test_a_beat_survives(progress):
    assert decode_news(encode_beat(progress)) == progress


def test_a_loss_that_is_no_number_survives_in_strict_json():
    line = encode_beat(Progress(loss=math.nan, steps_per_sec=math.inf))
    json.loads(line, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    read = decode_news(line)
    assert math.isnan(read.loss)
    assert read.steps_per_sec == math.inf


@given(statuses, st.booleans())
def test_a_caller_says_only_who_it_is(status, watch):
    read = decode_hello(encode_hello(Hello(watch=watch, caller=status)))
    assert read.watch is watch
    assert (read.caller.job, read.caller.task, read.caller.run) == (status.job, status.task, status.run)
    assert read.caller == dataclasses.replace(
        Status(job="", task=status.task, run="", pid=0, host=""),
        **{name: getattr(status, name) for name in ("job", "run", "pid", "host", "blamed")},
    )


def test_a_caller_may_be_no_task():
    assert decode_hello(encode_hello(Hello(watch=False))) == Hello(watch=False)


@given(st.binary() | values.map(lambda value: json.dumps(value).encode()))
def test_other_bytes_are_a_protocol_error(line):
    for decode in (decode_news, decode_hello):
        with pytest.raises(ProtocolError):
            decode(line)


broken = values | st.just(float("nan")) | st.lists(values, min_size=2, max_size=3)


@given(statuses, st.data())
def test_a_status_with_a_wrong_part_is_read_or_is_a_protocol_error(status, data):
    message = json.loads(encode_status(status))
    part = data.draw(st.sampled_from([message, message["status"], message["status"]["progress"]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(broken)
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode_news(json.dumps(message).encode()), Status)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{" * 100_000, "it sends b'{{{"),
        (b'{"muster": 2}', "it speaks version 2 of muster's protocol, and this task speaks version 1"),
        (encode_refusal("This is worker 0."), "it answers: This is worker 0."),
        (b'{"muster": 1}', "whose 'status' is 'None'"),
        (b'{"muster": 1, "progress": {"state": "asleep"}}', "its state is 'asleep', which is none"),
        (b'{"muster": 1, "progress": {"loss": "low"}}', "its loss is 'low', which is no number"),
    ],
)
def test_a_protocol_error_says_what_was_received(line, says):
    with pytest.raises(ProtocolError) as raised:
        decode_news(line)
    assert says in str(raised.value)


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=5), st.data())
def test_lines_are_the_same_however_they_are_cut(lines, data):
    lines = [b"{" + line for line in lines]
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    buffer = LineBuffer(MAX_HELLO)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += buffer.feed(stream[start:end])
    assert found == lines


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_line_that_does_not_end_is_refused_before_it_fills_the_memory(chunk):
    buffer = LineBuffer(100)
    for _ in range(100 // chunk):
        assert buffer.feed(b"{" * chunk) == []
    with pytest.raises(ProtocolError, match="a line of more than 100 bytes"):
        buffer.feed(b"{" * chunk)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x00", b"\n", b"SSH-2.0", b"{}\nG"])
def test_a_line_that_starts_otherwise_is_refused_at_once(data):
    with pytest.raises(ProtocolError, match="it sends b"):
        LineBuffer(100).feed(data)


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
    got = decode_news(encode_status(sent))
    shown = "\\x1b]0;title\\x07\\x1b[2J\\x9bA"
    assert got == dataclasses.replace(
        sent, job=shown, task=Task(shown, 0), host=shown, versions={shown: shown}, error=f"{shown}\n\tat"
    )
    with pytest.raises(ProtocolError, match=r"it answers: \\x1b"):
        decode_news(encode_refusal("\x1bc"))
