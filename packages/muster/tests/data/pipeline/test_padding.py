"""padded_batch."""

import re

import numpy as np
import pytest
from dataset_model import read

from muster._errors import DatasetError
from muster.data import Dataset, TensorSpec


def test_padded_batch() -> None:
    rows = Dataset.from_generator(lambda: iter([[1], [2, 3], [4, 5, 6]]), output_types=np.int32)
    assert read(rows.padded_batch(2)) == [[[1, 0], [2, 3]], [[4, 5, 6]]]
    assert read(rows.padded_batch(2, drop_remainder=True, padding_values=-1)) == [[[1, -1], [2, 3]]]
    assert read(rows.padded_batch(3, padded_shapes=(4,)))[0][0] == [1, 0, 0, 0]
    assert read(rows.padded_batch(3, padded_shapes=[-1]))[0][0] == [1, 0, 0]
    assert read(rows.padded_batch(3, padded_shapes=5))[0][0] == [1, 0, 0, 0, 0]
    pairs = rows.map(lambda x: (x, {"n": len(x), "t": "x" * len(x)}))
    padded = read(
        pairs.padded_batch(2, padded_shapes=([3], {"n": [], "t": ()}), padding_values=(7, {"n": 0, "t": ""}))
    )
    assert padded[0] == ([[1, 7, 7], [2, 3, 7]], {"n": [1, 2], "t": ["x", "xx"]})
    words = Dataset.from_generator(lambda: iter([["a"], ["b", "cc"]]), output_types=str)
    assert read(words.padded_batch(2)) == [[["a", ""], ["b", "cc"]]]


def test_padding_text_may_be_longer_than_the_texts() -> None:
    rows = Dataset.from_generator(lambda: [["a", "b"], ["c"]], output_signature=TensorSpec([None], str))
    assert read(rows.padded_batch(2, padding_values="<pad>")) == [[["a", "b"], ["c", "<pad>"]]]


@pytest.mark.parametrize(
    ("kind", "value"), [(np.int32, 0.5), (np.uint8, -1), (np.int32, "x"), (np.float32, [1, 2])]
)
def test_padding_of_another_type(kind: type, value: object) -> None:
    rows = Dataset.from_generator(lambda: [[1, 2], [3]], output_signature=TensorSpec([None], kind))
    with pytest.raises(DatasetError, match=rf"padding_values has {re.escape(repr(value))} for a component"):
        read(rows.padded_batch(2, padding_values=value))
