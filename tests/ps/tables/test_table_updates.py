"""Exported updates of rows, and those that do not fit a table."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from muster.ps.tables import DenseTable, SlotSpec, TableSpec
from muster.ps.tables.updates import CompiledRowUpdate, export_row_update

SPEC = TableSpec(name="t", shape=(3,), slots=(SlotSpec("m", (3,)), SlotSpec("n", ())))


def momentum(rows, mean, count, gradients, rate, step):
    mean = 0.9 * mean + gradients
    return rows - rate * mean / step, mean, count + 1


NUMBERS = ("float32", "int32")


def test_rows_are_updated_as_the_rule_does():
    update = CompiledRowUpdate(export_row_update(momentum, SPEC, NUMBERS), SPEC)
    table = DenseTable(SPEC, 0, 500, update)
    table.initialize()
    before = table.look_up(np.arange(500))
    rng = np.random.default_rng(0)
    wanted = before, np.zeros((500, 3), np.float32), np.zeros(500, np.float32)
    for step in range(1, 6):
        ids = rng.permutation(500)[: 100 * step - 40]
        gradients = rng.normal(size=(len(ids), 3)).astype(np.float32)
        table.apply(ids, gradients, [0.1, step])
        made = momentum(*(each[ids] for each in wanted), gradients, np.float32(0.1), np.int32(step))
        for each, values in zip(wanted, made, strict=True):
            each[ids] = values
    (piece,) = list(table.snapshot())
    for array, each in zip(piece.arrays, wanted, strict=True):
        np.testing.assert_allclose(array, each, rtol=1e-5, atol=1e-6)


def test_what_is_given_may_be_used_again():
    update = CompiledRowUpdate(export_row_update(momentum, SPEC, NUMBERS), SPEC)
    rows = [np.ones((64, 3), np.float32), np.zeros((64, 3), np.float32), np.zeros(64, np.float32)]
    made = update(rows, np.ones((64, 3), np.float32), [1.0, 2])
    for each in rows:
        each[:] = np.nan
    assert (made[0] == 0.5).all()
    assert (made[2] == 1).all()


def test_rules_of_optimizers_can_be_exported():
    from muster.optimizers import _update_rules as rules

    spec = TableSpec(name="t", shape=(4,), slots=(SlotSpec("accumulator", (4,), initial=0.1),))
    exported = export_row_update(
        lambda rows, accumulator, gradients, rate: rules.adagrad(gradients, rows, accumulator, rate), spec
    )
    update = CompiledRowUpdate(exported, spec)
    assert update.numbers == 1
    rows, accumulator = update([np.ones((64, 4), np.float32)] * 2, np.ones((64, 4), np.float32), [0.5])
    np.testing.assert_allclose(accumulator, 2)
    np.testing.assert_allclose(rows, 1 - 0.5 / np.sqrt(2), rtol=1e-6)


def exported_for(rows):
    """An update for some number of rows alone."""
    function = jax.jit(lambda *arrays: arrays[:3])
    arrays = [
        jax.ShapeDtypeStruct((rows, *column.shape), jnp.float32)
        for column in (*SPEC.columns, SPEC.columns[0])
    ]
    return bytes(jax.export.export(function)(*arrays).serialize())


ROWS = TableSpec(name="t", shape=(3,))
ROWS_WITH_SLOT = TableSpec(name="t", shape=(3,), slots=(SlotSpec("m", (3,)),))


@pytest.mark.parametrize(
    ("spec", "made", "text"),
    [
        (SPEC, lambda: b"nothing", "update of table 't', of 7 bytes, is no exported function"),
        (SPEC, lambda: exported_for(64), "update of table 't' takes rows of no rows"),
        (
            SPEC,
            lambda: export_row_update(lambda *each: each[:1], ROWS),
            r"takes rows of float32\[3\], float32\[3\], no rows; the table has float32\[3\], ",
        ),
        (
            SPEC,
            lambda: export_row_update(lambda *each: each[:2], SPEC),
            r"returns rows of float32\[3\], float32\[3\]; the table has float32\[3\], ",
        ),
        (
            ROWS,
            lambda: export_row_update(lambda *each: each[:1], ROWS_WITH_SLOT),
            "takes more arrays than there are slots",
        ),
    ],
    ids=["none", "fixed", "other rows", "other results", "other slots"],
)
def test_updates_that_do_not_fit(spec, made, text):
    with pytest.raises(ValueError, match=text):
        CompiledRowUpdate(made(), spec)
