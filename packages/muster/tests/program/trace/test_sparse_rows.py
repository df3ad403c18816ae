"""`SparseRows`: sparse features of a batch as a step gets them."""

import jax
import numpy as np
import pytest

from muster._errors import TraceError
from muster.data import SparseTensor
from muster.program import SparseRows

MATRIX = SparseTensor([[0, 1], [0, 4], [1, 0], [3, 2]], np.array([1.0, 2.0, 3.0, 4.0], "float32"), [4, 5])


def test_a_compiled_function_makes_the_array_of_it() -> None:
    rows = SparseRows.of(MATRIX)
    assert (rows.shape, rows.dtype, rows.dense_shape.tolist()) == ((4, 5), np.float32, [4, 5])
    np.testing.assert_array_equal(jax.jit(SparseRows.to_dense)(rows), MATRIX.to_dense())
    np.testing.assert_array_equal(jax.jit(lambda each: each.to_dense(-1.0))(rows), MATRIX.to_dense(-1.0))


def test_values_side_by_side() -> None:
    rows = SparseRows.of(MATRIX)
    assert rows.by_rows(0).tolist() == [[1, 2], [3, 0], [0, 0], [4, 0]]
    assert rows.with_values(rows.plain_values * 2).by_rows(0).tolist() == [[2, 4], [6, 0], [0, 0], [8, 0]]


def test_an_empty_matrix() -> None:
    rows = SparseRows.of(SparseTensor(np.zeros((0, 2)), np.zeros(0, "int32"), [2, 0]))
    assert rows.shape == (2, 0)
    assert rows.by_rows(-1).tolist() == [[-1], [-1]]


def test_one_program_serves_batches_with_other_places() -> None:
    traced = []

    @jax.jit
    def total(rows: SparseRows) -> jax.Array:
        traced.append(rows.shape)
        return rows.to_dense().sum()

    assert total(SparseRows.of(MATRIX)) == 10
    assert total(SparseRows.of(SparseTensor([[1, 3], [1, 4]], np.ones(2, "float32"), [4, 5]))) == 2
    assert traced == [(4, 5)]


@pytest.mark.parametrize("part", ["indices", "values"])
def test_parts_that_a_step_cannot_have(part: str) -> None:
    with pytest.raises(TraceError, match=rf"the {part} of a sparse feature are no array\. Use tf\.sparse"):
        getattr(SparseRows.of(MATRIX), part)
