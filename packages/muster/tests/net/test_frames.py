"""Frames come out as they went in, however they are cut, and a stranger's do not fill the memory."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.net import FrameBuffer, Hello, ProtocolError, decode_message, encode_frame

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.binary(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=10,
)


# What MessagePack has and JSON does not: keys of other types than texts.
keyed = st.dictionaries(st.none() | st.integers(0, 9) | st.binary(max_size=2) | st.text(max_size=2), values)


@given(keyed | st.dictionaries(st.tuples(st.integers(0, 9)), values))
def test_maps_with_any_keys_are_messages_or_a_protocol_error(message):
    (packed,) = FrameBuffer(1 << 20).feed(encode_frame(message))
    for kind in (object, Hello):
        with contextlib.suppress(ProtocolError):
            decode_message(packed, kind)


@given(st.lists(values, max_size=5), st.data())
def test_messages_are_the_same_however_they_are_cut(messages, data):
    stream = b"".join(map(encode_frame, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    buffer = FrameBuffer(1 << 20)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += buffer.feed(stream[start:end])
    assert [decode_message(each, object) for each in found] == messages
    assert buffer.empty


def test_a_message_that_is_too_long_is_refused_before_it_comes():
    buffer = FrameBuffer(100)
    assert buffer.feed(b"\0\0\0\x64") == []
    with pytest.raises(ProtocolError, match="a message of 101 bytes, and 100 are allowed"):
        FrameBuffer(100).feed(b"\0\0\0\x65")


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_a_protocol_error(data):
    with contextlib.suppress(ProtocolError):
        for message in FrameBuffer(100).feed(data):
            assert isinstance(decode_message(message, dict), dict)


def test_texts_are_safe_to_show():
    evil = {"\x1b[2J": ["\x1b]0;title\x07"]}
    (message,) = FrameBuffer(100).feed(encode_frame(evil))
    assert decode_message(message, object) == {"\\x1b[2J": ["\\x1b]0;title\\x07"]}


def test_what_is_wrong_is_told_in_one_line():
    (packed,) = FrameBuffer(100).feed(encode_frame({"type": "a\nCRITICAL: \tall is lost"}))
    with pytest.raises(ProtocolError) as raised:
        decode_message(packed, Hello)
    assert "all is lost" in str(raised.value)
    assert not set("\n\t") & set(str(raised.value))
