"""Initial rows are drawn as they say, and are the same for an id wherever and with whatever it is drawn."""

import msgspec
import numpy as np
import pytest

from muster.ps.tables import Constant, Normal, Uniform
from muster.ps.tables._initial_rows import InitialRows, make_rows

FLOAT = np.dtype(np.float32)
KINDS = [
    Constant(0.25),
    Uniform(-1.0, 3.0, seed=1),
    Normal(2.0, 0.5, seed=2),
    Normal(2.0, 0.5, truncated=True),
]
IDS = np.concatenate([np.arange(20_000), -np.arange(1, 10), np.arange(9) << 55])


@pytest.mark.parametrize("initial", KINDS, ids=str)
def test_rows_depend_on_their_ids_alone(initial):
    rows = make_rows(initial, IDS, (2, 3), FLOAT)
    assert (rows.shape, rows.dtype) == ((len(IDS), 2, 3), FLOAT)
    order = np.random.default_rng(0).permutation(len(IDS))[:1000]
    np.testing.assert_array_equal(make_rows(initial, IDS[order], (2, 3), FLOAT), rows[order])


@pytest.mark.parametrize("initial", KINDS[1:], ids=str)
def test_rows_differ_by_id_and_by_seed(initial):
    rows = make_rows(initial, IDS, (4,), FLOAT)
    assert len(np.unique(rows)) > 0.9 * rows.size
    other = make_rows(msgspec.structs.replace(initial, seed=-7), IDS, (4,), FLOAT)
    assert (rows != other).mean() > 0.99
    assert abs(np.corrcoef(rows[:-1, 0], rows[1:, 0])[0, 1]) < 0.05
    assert abs(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]) < 0.05


def test_values_are_of_their_distributions():
    uniform = make_rows(Uniform(-1.0, 3.0), IDS, (8,), FLOAT)
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() <= 3
    np.testing.assert_allclose([uniform.mean(), uniform.std()], [1, 4 / np.sqrt(12)], atol=0.02)
    normal = make_rows(Normal(2.0, 0.5), IDS, (8,), FLOAT)
    np.testing.assert_allclose([normal.mean(), normal.std()], [2, 0.5], atol=0.01)
    np.testing.assert_allclose((np.abs(normal - 2) > 1).mean(), 0.0455, atol=0.003)
    truncated = make_rows(Normal(2.0, 0.5, truncated=True), IDS, (8,), FLOAT)
    assert np.abs(truncated - 2).max() <= 1
    np.testing.assert_allclose([truncated.mean(), truncated.std()], [2, 0.5 * 0.8796], atol=0.01)
    assert (make_rows(Constant(0.25), IDS, (8,), FLOAT) == 0.25).all()


def test_values_never_change():
    def drawn(initial):
        return make_rows(initial, np.array([-5, 1 << 40]), (2,), FLOAT).tolist()

    uniform = [[0.014649812132120132, -0.03158217668533325], [-0.0020922129042446613, -0.014004490338265896]]
    assert drawn(Uniform(seed=9)) == uniform
    normal = [[0.02897820435464382, -0.0012348865857347846], [-0.03638652339577675, -0.045596640557050705]]
    np.testing.assert_allclose(drawn(Normal(seed=9)), normal, rtol=1e-6)


@pytest.mark.parametrize("initial", KINDS, ids=str)
def test_they_travel(initial):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(initial), type=InitialRows) == initial
