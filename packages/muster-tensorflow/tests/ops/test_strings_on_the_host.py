"""``tf.strings``; results are those of TensorFlow 2.15, as ``str``."""

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1


def test_numbers() -> None:
    found = tf.strings.to_number(["1.5", " 2"])
    assert (found.dtype, found.tolist()) == (np.float32, [1.5, 2.0])
    assert tf1.string_to_number("7", tf.int32) == 7
    assert tf1.string_to_number(string_tensor=b"7") == 7.0
    with pytest.raises(ValueError, match="could not convert string to float"):
        tf.strings.to_number("x")
    assert tf.strings.to_number(["3000000000", "-1"], tf.int64).tolist() == [3_000_000_000, -1]
    for texts in ("3000000000", ["1", "-3000000000"], tf.constant(["1", "3000000000"])):
        with pytest.raises(ValueError, match="3000000000 is out of the range of int32: give another"):
            tf.strings.to_number(texts, tf.int32)
    assert tf.strings.as_string([1, 2]).tolist() == ["1", "2"]
    assert tf.strings.as_string(1.5) == "1.500000"
    assert tf.strings.as_string([1.5, 22], precision=1, width=6, fill="0").tolist() == ["0001.5", "0022.0"]
    assert tf.strings.as_string(1500.0, scientific=True, precision=2) == "1.50e+03"
    assert tf.strings.as_string(0.5, shortest=True) == "0.5"


@pytest.mark.parametrize("kind", [str.encode, tf.constant])
def test_patterns_and_separators_are_bytes_or_tensors(kind: Callable[[str], Any]) -> None:
    assert tf.strings.regex_replace(["a<br />b"], kind(r"<br\s*/?>"), kind(" ")).tolist() == ["a b"]
    assert tf.strings.regex_full_match("aab", kind("a*b"))
    assert tf.strings.split("a,b", kind(",")).tolist() == ["a", "b"]
    assert tf.strings.join(["a", b"b"], kind("-")) == "a-b"
    assert tf.strings.reduce_join(["a", "b"], separator=kind("-")) == "a-b"
    assert tf.strings.ngrams(["a", "b"], 2, kind("-")).tolist() == ["a-b"]
    assert tf.strings.unsorted_segment_join(["a", "b"], [0, 0], 1, kind("-")).tolist() == ["a-b"]
    assert tf.strings.format(kind("<{}>"), "a") == "<a>"


def test_numbers_in_rows_of_different_lengths() -> None:
    found = tf.strings.to_number(tf.strings.split(["1,2.5", "3"], ","), tf.float32)
    assert (found.dtype, found.to_list()) == (np.float32, [[1.0, 2.5], [3.0]])
    assert found.to_tensor().tolist() == [[1.0, 2.5], [3.0, 0.0]]


def test_letters() -> None:
    assert tf.strings.lower(["Ab", "C"]).tolist() == ["ab", "c"]
    assert tf.strings.upper("a") == "A"
    assert tf.strings.strip(b" a ") == "a"
    assert (tf.strings.length("aé"), tf.strings.length("aé", unit="UTF8_CHAR")) == (3, 2)
    assert tf.strings.substr("abcdef", 1, 3) == "bcd"
    assert tf.strings.substr("abcdef", -2, 2) == "ef"
    assert tf1.substr("aéb", 1, 1, "name", "UTF8_CHAR") == "é"
    assert tf.strings.substr("aéb", 1, 1).numpy() == b"\xc3"
    assert tf.strings.substr(["aéb", "abc"], 1, 1).numpy().tolist() == [b"\xc3", b"b"]
    words = tf.RaggedTensor.from_row_lengths(tf.ragged.constant([[97], [98, 99]]), [2])
    assert tf.strings.unicode_encode(words, "UTF-8").to_list() == [[b"a", b"bc"]]
    with pytest.raises(ValueError, match="got 'WORD'"):
        tf.strings.length("a", unit="WORD")


def test_parts() -> None:
    assert tf.strings.split("a b  c").tolist() == ["a", "b", "c"]
    assert tf.strings.split("a,b,,c", sep=",").tolist() == ["a", "b", "", "c"]
    ragged = tf.strings.split(["a b  c", "d"])
    assert (ragged.values.tolist(), ragged.row_splits.tolist()) == (["a", "b", "c", "d"], [0, 3, 4])
    assert tf.strings.join(["a", "b"], "-") == "a-b"
    assert tf.strings.join([["a", "b"], "c"]).tolist() == ["ac", "bc"]
    assert tf.strings.join([[b"a\0", b"c"], b"\0"]).numpy().tolist() == [b"a\0\0", b"c\0"]
    assert tf.strings.join([b"a\0", b"b\0"], b"\0").numpy() == b"a\0\0b\0"
    texts = tf.data.Dataset.from_tensors(b"a").repeat(20).map(lambda text: tf.strings.join([text, b"\0"]))
    assert set(next(texts.batch(20).as_numpy_iterator())) == {b"a\0"}


def test_patterns() -> None:
    assert tf.strings.regex_replace("a1b2", r"([a-z])\d", r"<\1>") == "<a><b>"
    assert tf.strings.regex_replace("aa", "a", "b", replace_global=False) == "ba"
    assert tf.strings.regex_full_match(["ab", "abc"], "ab.?c").tolist() == [False, True]


def test_text_of_bytes() -> None:
    assert (tf.compat.as_str(b"a"), tf.compat.as_bytes("a"), tf.compat.as_str_any(1)) == ("a", b"a", "1")


def test_characters() -> None:
    assert tf.strings.unicode_split("aé", "UTF-8").tolist() == ["a", "é"]
    assert tf.strings.unicode_split(["ab", "c"], "UTF-8").to_list() == [[b"a", b"b"], [b"c"]]
    assert tf.strings.bytes_split("ab").tolist() == ["a", "b"]
    codes = tf.strings.unicode_decode(["Aé", "B"], "UTF-8")
    assert (codes.to_list(), codes.dtype) == ([[65, 233], [66]], np.int32)
    assert tf.strings.unicode_encode(codes, "UTF-8").tolist() == ["Aé", "B"]
    assert tf.strings.unicode_encode([72, 105], "UTF-8") == "Hi"
    assert tf.strings.unicode_encode(np.array([[72, 105]]), "UTF-8").tolist() == ["Hi"]


def test_parts_have_an_axis_more_than_the_texts():
    text = tf.constant("1 20")
    assert tf.strings.to_number(tf.strings.split(text)).numpy().tolist() == [1, 20]
    assert tf.strings.bytes_split(text).shape == (4,)
    assert tf.strings.ngrams(tf.strings.split(text), 2).numpy().tolist() == [b"1 20"]
    assert tf.compat.v1.strings.split(text).dense_shape.numpy().tolist() == [1, 2]
    table = tf.constant([["a b", "c"], ["d", "e f g"]])
    words = [[[b"a", b"b"], [b"c"]], [[b"d"], [b"e", b"f", b"g"]]]
    assert tf.strings.split(table).shape == (2, 2, None)
    assert tf.strings.split(table).to_list() == words
    assert tf.strings.ngrams(tf.strings.split(table), 2).to_list() == [[[b"a b"], []], [[], [b"e f", b"f g"]]]
    ragged = tf.ragged.constant([["a b", "c"], ["d"]])
    assert tf.strings.split(ragged).to_list() == [[[b"a", b"b"], [b"c"]], [[b"d"]]]
    assert tf.strings.unicode_decode(ragged, "UTF-8").to_list() == [[[97, 32, 98], [99]], [[100]]]
    assert tf.strings.split(tf.constant([""])).to_list() == [[]]


def test_texts_of_rows() -> None:
    words = tf.strings.split(["The cat", "sat"])
    assert tf.strings.lower(words).to_list() == [[b"the", b"cat"], [b"sat"]]
    assert tf.strings.length(words).to_list() == [[3, 3], [3]]
    assert tf.strings.reduce_join(words, axis=-1, separator="_").tolist() == ["The_cat", "sat"]
    assert tf.strings.reduce_join([["a", "b"], ["c", "d"]], axis=0).tolist() == ["ac", "bd"]
    assert tf.strings.reduce_join(["a", "b"], axis=-1, separator="-") == "a-b"
    assert tf.strings.reduce_join([["a"], ["b"]]) == "ab"
    assert tf.strings.reduce_join(["a", "b"], axis=0, keepdims=True).tolist() == ["ab"]
    assert tf.strings.ngrams(["a", "b", "c"], 2).tolist() == ["a b", "b c"]
    assert tf.strings.ngrams(words, [1, 2], separator="+").to_list() == [
        [b"The", b"cat", b"The+cat"],
        [b"sat"],
    ]
    assert tf.strings.format("step {} of {}", (1, "many")) == "step 1 of many"
    with pytest.raises(ValueError, match="1 placeholders"):
        tf.strings.format("{}", (1, 2))


def test_buckets_of_texts() -> None:
    assert tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow", "2.x"], 3).numpy().tolist() == [0, 2, 2]
    assert tf.strings.to_hash_bucket_strong(["Hello", "TF"], 3, [1, 2]).numpy().tolist() == [2, 0]
    texts = ["Hello", "TensorFlow", "2.x", "", "exactly8", "exactly8exactly16", "ärger über öl"]
    older = tf.strings.to_hash_bucket(texts, 1000003).numpy().tolist()
    assert older == [609107, 33211, 226925, 598820, 293420, 766842, 652662]
    words = tf.ragged.constant([["Hello"], ["TensorFlow", "2.x"]])
    assert tf.strings.to_hash_bucket_fast(words, 3).to_list() == [[0], [2, 2]]


def test_what_replaces_a_match_may_have_all_of_it() -> None:
    assert tf.strings.regex_replace("a,b.", "[,.]", r" \0 ") == "a , b . "
    assert tf.strings.regex_replace("ab", "(a)(b)", r"\2\1\\") == "ba\\"
    assert tf.strings.regex_replace(["a-b c", "d!"], "[[:punct:] ]", "").tolist() == ["abc", "d"]
    assert tf.strings.regex_full_match(["12", "a1"], "[[:digit:]]+").tolist() == [True, False]
    with pytest.raises(ValueError, match="after a backslash comes a digit"):
        tf.strings.regex_replace("a", "a", r"\x")


def test_offsets_of_characters_are_bytes() -> None:
    characters, begins = tf.strings.unicode_split_with_offsets("aéb")
    assert (characters.tolist(), begins.tolist(), begins.dtype) == (["a", "é", "b"], [0, 1, 3], np.int64)
    codes, begins = tf.strings.unicode_decode_with_offsets(["é!", "a"], "UTF-8")
    assert (codes.to_list(), begins.to_list()) == ([[233, 33], [97]], [[0, 2], [0]])


def test_characters_in_other_encodings() -> None:
    assert tf.strings.unicode_decode(b"\x00\xe9\x00a", "UTF-16-BE").tolist() == [233, 97]
    assert tf.strings.unicode_decode([b"a\x00"], "UTF-16-LE").to_list() == [[97]]
    assert tf.strings.unicode_encode([233, 97], "UTF-16-BE") == b"\x00\xe9\x00a"
    assert tf.strings.unicode_encode([[97]], "UTF-32-BE").numpy().tolist() == [b"\0\0\0a"]
    assert tf.strings.unicode_split(b"\x00\xe9\x00a", "UTF-16-BE").numpy().tolist() == [b"\x00\xe9", b"\x00a"]
    assert tf.strings.unicode_decode_with_offsets(b"\x00\xe9\x00a", "UTF-16-BE")[1].tolist() == [0, 2]
    assert tf.strings.unicode_decode(b"a\xff", "UTF-8", replacement_char=63).tolist() == [97, 63]
    assert tf.strings.unicode_encode([97, 0xD800, -1], errors="ignore") == "a"
    assert tf.strings.unicode_encode([0x110000]) == "\ufffd"
    with pytest.raises(ValueError, match="code points of characters, got -1"):
        tf.strings.unicode_encode([-1], errors="strict")
    with pytest.raises(ValueError, match="got the encoding 'UTF-16'"):
        tf.strings.unicode_encode([97], "UTF-16")


def test_scripts_are_icus_numbers() -> None:
    scripts = tf.strings.unicode_script([33464, 1041])  # Han and Cyrillic
    assert (scripts.tolist(), scripts.dtype) == ([17, 8], np.int32)
    assert tf.strings.unicode_script(ord("a")) == 25
    assert tf.strings.unicode_script([0x20, 0x301, 0x10FFFF, -1, 0x110000]).tolist() == [0, 1, 103, -1, -1]
    codes = tf.strings.unicode_decode(["a 世", "のε"], "UTF-8")
    assert tf.strings.unicode_script(codes).to_list() == [[25, 0, 17], [20, 14]]


def test_encodings_and_segments() -> None:
    assert tf.strings.unicode_transcode(["é"], "UTF-8", "UTF-8").tolist() == ["é"]
    cleaned = tf.strings.unicode_transcode(
        "a\nb", "UTF-8", "UTF-8", replacement_char=32, replace_control_characters=True
    )
    assert cleaned == "a b"
    wide = tf.strings.unicode_transcode(["é", "a"], "UTF-8", "UTF-16-BE")
    assert wide.numpy().tolist() == [b"\x00\xe9", b"\x00a"]
    assert tf.strings.unicode_transcode(b"\x00\xe9", "UTF-16-BE", "UTF-8") == "é"
    assert tf.strings.unicode_transcode(b"\xe9a", "latin1", "UTF-8") == "éa"
    assert tf.strings.unicode_transcode(b"a\xff", "UTF-8", "UTF-8", replacement_char=63) == "a?"
    with pytest.raises(ValueError, match="UTF-16-BE"):
        tf.strings.unicode_transcode("a", "UTF-16-BE", "UTF-8")
    with pytest.raises(ValueError, match="Python knows no encoding 'runes'"):
        tf.strings.unicode_transcode("a", "runes", "UTF-8")
    joined = tf.strings.unsorted_segment_join(["this", "a", "test", "is"], [0, 1, 1, 0], 3, " ")
    assert joined.tolist() == ["this is", "a test", ""]
    assert tf.io.encode_base64("hi?>") == "aGk_Pg"
    assert tf.io.encode_base64(["hi"], pad=True).tolist() == ["aGk="]
    assert tf.io.decode_base64(["aGk", "aGk_Pg"]).tolist() == ["hi", "hi?>"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\pP", "Hello# wörld# #x# # 3½ €5"),
        (r"[\pP\s]+", "Hello#wörld#x#3½#€5"),
        (r"\p{L}+", "#, #! (#) – 3½ €5"),
        (r"\p{^Lu}", "H########################"),
        (r"\p{Sc}|\pN", "Hello, wörld! (x) – ## ##"),
        (r"[\P{L}x]", "Hello##wörld#############"),
    ],
)
def test_expressions_have_categories_of_unicode(pattern: str, expected: str) -> None:
    assert tf.strings.regex_replace("Hello, wörld! (x) – 3½ €5", pattern, "#") == expected


def test_compressed_bytes() -> None:
    packed = {"ZLIB": zlib.compress(b"hi"), "GZIP": gzip.compress(b"hi"), "": b"hi"}
    for kind, each in packed.items():
        assert tf.io.decode_compressed(each, kind) == b"hi"
        assert tf.compat.v1.decode_compressed([[each]], kind).tolist() == [[b"hi"]]
    dataset = tf.data.Dataset.from_tensors(packed["ZLIB"]).map(lambda x: tf.io.decode_compressed(x, "ZLIB"))
    assert next(iter(dataset)) == b"hi"
    with pytest.raises(ValueError, match="got 'BZIP'"):
        tf.io.decode_compressed(b"", "BZIP")
