"""Class labels that are out of range are an error, which names them."""

import re

import numpy as np
import pytest

from muster._errors import DatasetError
from muster._keras import keras
from muster.program import check_ids, keepable
from muster.program.variables import patched_keras

LOGITS = np.zeros((3, 5), np.float32)


def of_keras(labels, ids=None):
    with patched_keras():
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, LOGITS)


@pytest.mark.parametrize("wrong", [5, -1, 2**31])
def test_a_label_out_of_range_is_named(wrong):
    assert np.all(np.isfinite(of_keras(np.array([0, 4, 1]))))
    named = re.escape(f"{wrong:g}")
    with pytest.raises(DatasetError, match=rf"value of {named} .* \[0, 5\).* values: 0 {named} 1\."):
        of_keras(np.array([0, wrong, 1]))


def test_an_ignored_class_is_no_error():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    with patched_keras():
        assert np.isfinite(loss(np.array([0, -1, 1]), LOGITS))


def test_an_id_out_of_range_is_named():
    with pytest.raises(DatasetError, match=r"id value of 7 .* \[0, 4\)"):
        check_ids(np.array([1, 7]), 4)


@pytest.mark.parametrize(("rows", "most"), [(1, 16), (1 << 14, 16), (1 << 20, 8), (1 << 30, 1)])
def test_large_batches_do_not_wait_in_numbers(rows, most):
    batch = {"x": np.broadcast_to(np.float32(0), (rows, 2))}
    assert keepable(batch, 16) == most
