"""Features that are read from the bytes of a batch of Examples at once: as Protocol Buffers read them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from muster import DatasetError
from muster.data import (
    BytesList,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    FloatList,
    Int64List,
    parse_example,
)
from muster.data.files import _example_columns, _parse_example
from muster.data.files._example_columns import Wanted, columns

WANTED = [Wanted("f", "float", 2), Wanted("n", "int64", 1), Wanted("a longer name", "bytes", 1)]
SPECS = {
    "f": FixedLenFeature((2, 1), np.float32),
    "n": FixedLenFeature((), np.int64),
    "a longer name": FixedLenFeature((1,), "str", default_value="none"),
}


def example(floats: Sequence[float], number: int, text: bytes, **others: Feature) -> bytes:
    named = {
        "f": Feature(float_list=FloatList(value=floats)),
        "n": Feature(int64_list=Int64List(value=[number])),
        "a longer name": Feature(bytes_list=BytesList(value=[text])),
        **others,
    }
    return Example(features=Features(feature=named)).SerializeToString()


NUMBERS = [0, 127, 128, -1, 2**62, -(2**63)]
TEXTS = [b"", b"x", b"\0\0", b"f\n\x02", b"y" * 63, b"z" * 5000]
ALIKE = [example([i, -i / 2], *each) for i, each in enumerate(zip(NUMBERS, TEXTS, strict=True))]


def test_values_are_read_at_once() -> None:
    found = columns(ALIKE, WANTED)
    assert found["f"].tolist() == [[i, -i / 2] for i in range(6)]
    assert found["n"][:, 0].tolist() == NUMBERS
    assert found["a longer name"][:, 0].tolist() == TEXTS
    assert {name: each.dtype for name, each in found.items()} == {
        "f": np.float32,
        "n": np.int64,
        "a longer name": np.object_,
    }


@pytest.mark.parametrize(
    "texts", [[b"", b"12345678", b"\0x", b"1234567", b"y" * 40], [b""] * 5, [b"a", b"b\0"]]
)
def test_short_texts_are_read_with_all_their_bytes(texts: list[bytes]) -> None:
    found = columns([example([0, 1], 2, text) for text in texts], WANTED)["a longer name"]
    assert (found[:, 0].tolist(), found.dtype) == (texts, np.object_)


OTHER = Feature(float_list=FloatList(value=[1.0]))
UNPACKED = b"\n\r\n\x0b\n\x01n\x12\x06\x1a\x04\x08\x05\x08\x06"
ROWS: dict[str, tuple[list[bytes], set[str]]] = {
    "another feature in one": (
        [*ALIKE, example([1, 2], 3, b"t", other=OTHER, a=OTHER)],
        {"f", "n", "a longer name"},
    ),
    "many texts of many sizes": (
        [example([0, 1], i, b"t" * i) for i in range(40)],
        {"f", "n", "a longer name"},
    ),
    "a feature of other kind": ([*ALIKE, example([1, 2], 3, b"t", n=OTHER)], {"f", "a longer name"}),
    "a feature of other size": ([*ALIKE, example([1, 2, 3], 3, b"t")], {"n", "a longer name"}),
    "an empty list": (
        [*ALIKE, example([1, 2], 3, b"t", n=Feature(int64_list=Int64List()))],
        {"f", "a longer name"},
    ),
    "a feature without a list": ([*ALIKE, example([1, 2], 3, b"t", n=Feature())], set()),
    "numbers one by one": ([*ALIKE, UNPACKED], set()),
    "no feature at all": ([b"", *ALIKE], set()),
    "no example": ([b"\n\xffbroken", *ALIKE], set()),
    "an example cut off": ([*ALIKE, ALIKE[0][:-1]], set()),
    "a name twice": ([*ALIKE, b"\n\x18" + 2 * b"\n\x0a\n\x01n\x12\x05\x1a\x03\n\x01\x07"], set()),
    "none": ([], set()),
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_what_is_not_alike_is_left_to_protocol_buffers(
    rows: tuple[list[bytes], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, alike = rows
    assert columns(given, WANTED).keys() == alike
    at_once = parsed(given)
    monkeypatch.setattr(_parse_example, "columns", lambda *_: {})
    assert at_once == parsed(given)


def parsed(given: list[bytes]) -> Any:
    """Return the values of the features, or the error that says what is wrong."""
    try:
        return {name: values.tolist() for name, values in parse_example(given, SPECS).items()}
    except DatasetError as exc:
        return str(exc)


SHORT = [example([i, -i], i * 1000, b"t" * i) for i in range(3)]


def test_examples_in_one_order_are_read_eight_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {name: each.tolist() for name, each in columns(SHORT, WANTED).items()}
    assert values == {
        "f": [[0, 0], [1, -1], [2, -2]],
        "n": [[0], [1000], [2000]],
        "a longer name": [[b""], [b"t"], [b"tt"]],
    }
    monkeypatch.delattr(_example_columns, "_Examples")
    assert {name: each.tolist() for name, each in columns(SHORT, WANTED).items()} == values


def in_order(row: bytes, names: list[bytes]) -> bytes:
    """Return an Example of less than 128 bytes with its features in another order."""
    entries, at = {}, 2
    while at < len(row):
        entry = row[at : at + 2 + row[at + 1]]
        entries[entry[4 : 4 + entry[3]]] = entry
        at += len(entry)
    return row[:2] + b"".join(entries[name] for name in names)


def test_examples_may_have_their_features_in_any_order() -> None:
    orders = [[b"n", b"f", b"a longer name"], [b"f", b"a longer name", b"n"], [b"a longer name", b"n", b"f"]]
    rows = [in_order(*each) for each in zip(SHORT, orders, strict=True)]
    assert rows != SHORT
    assert parsed(rows) == parsed(SHORT)


def test_a_wrong_byte_anywhere_is_read_or_refused_as_by_protocol_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    spoilt = []
    for row, place in [(number, place) for number in (0, 2) for place in range(len(SHORT[number]))]:
        for value in (int(SHORT[row][place]) ^ 1, int(rng.integers(256))):
            rows = [bytearray(each) for each in SHORT]
            rows[row][place] = value
            spoilt.append(list(map(bytes, rows)))
    at_once = list(map(parsed, spoilt))
    assert sum(isinstance(each, str) for each in at_once) > len(spoilt) / 4
    monkeypatch.setattr(_parse_example, "columns", lambda *_: {})
    assert at_once == list(map(parsed, spoilt))


def test_a_longer_value_for_a_name_that_begins_alike_is_not_taken() -> None:
    names = {f"feature{'x' * i}": i for i in range(30)}
    row = Example(
        features=Features(
            feature={name: Feature(int64_list=Int64List(value=[i])) for name, i in names.items()}
        )
    ).SerializeToString()
    found = columns([row, row], [Wanted(name, "int64", 1) for name in [*names, "feat"]])
    assert {name: each[1, 0] for name, each in found.items()} == names
    assert columns([row, ""], [Wanted("feature", "int64", 1)]) == {}  # type: ignore[list-item]
    assert columns([row], [Wanted("feature\0", "int64", 1)]) == {}
    assert columns([row], [Wanted("n" * 200, "int64", 1)]) == {}
