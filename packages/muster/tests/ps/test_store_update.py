"""Exported functions on a store: compiled once, in place where nobody reads, refused if they are none."""

import jax.numpy as jnp
import ml_dtypes
import msgspec
import numpy as np
import pytest
from store_functions import adagrad, descent, exported, exported_rows

from muster.ps._array_spec import ArraySpec
from muster.ps.contents import Contents, StoredFunction, TableUse
from muster.ps.contents._row_uses import columns_of
from muster.ps.contents.updates import JaxDevice
from muster.ps.tables import Column, Columns, PaddedRows, RowBuffers, RowStore
from muster.ps.tables import _row_updates as row_updates

DEVICE = JaxDevice()


def held(*specs):
    return {spec.name: spec for spec in specs}


def address(value):
    return np.asarray(value).__array_interface__["data"][0]


def prepared(size=1000):
    arrays, function = descent(size)
    specs = held(*(array.spec for array in arrays))
    values = {name: DEVICE.put(np.zeros(spec.shape, spec.dtype)) for name, spec in specs.items()}
    return DEVICE.compile(function, specs), values, function, specs


def pushed(value, size=1000):
    return {"float32": np.full(size, value, np.float32)}


def test_an_update_and_what_workers_take_then(compilations):
    function, values, _, _ = prepared()
    compilations.clear()
    assert function.pull(values)["float32"].tolist() == [0.0] * 1000
    for turn in range(3):
        taken, _ = function.apply(values, pushed(1.0))
        assert taken["float32"][-1] == -0.5 * (turn + 1)
    assert int(values["count"]) == 3
    assert not compilations


def test_what_was_taken_does_not_change_while_it_is_sent():
    function, values, _, _ = prepared()
    function.apply(values, pushed(1.0))
    taken = function.apply(values, pushed(1.0))[0]["float32"]
    function.apply(values, pushed(1.0))
    assert (taken[0], DEVICE.get(values["kernel"])[0]) == (-1.0, -1.5)


def test_values_that_are_read_do_not_change():
    function, values, _, _ = prepared()
    before = DEVICE.get(values["kernel"])
    function.apply(values, pushed(1.0))
    assert not before.any()


def test_what_was_given_may_be_overwritten():
    function, values, _, _ = prepared(3_000_000)
    given = np.ones(3_000_000, np.float32)
    values["kernel"] = DEVICE.put(given)
    given[:] = 9.0
    push = pushed(1.0, 3_000_000)
    taken, _ = function.apply(values, push)
    push["float32"][:] = 9.0
    assert set(np.unique(taken["float32"])) == {0.5}
    assert set(np.unique(values["kernel"])) == {0.5}


def test_several_dtypes_shapes_and_a_scalar():
    specs = held(
        ArraySpec("a", (2, 3), "bfloat16"), ArraySpec("b", (), "float32"), ArraySpec("c", (2,), "bfloat16")
    )
    push = ArraySpec("p", (2,), "bfloat16"), ArraySpec("q", (), "int32")
    function = StoredFunction(
        fingerprint="f",
        takes=("c", "b", "a"),
        reads=("c", "b"),
        updates=("b", "c"),
        pushed=push,
        update=exported(
            lambda c, b, p, q: [b + q, jnp.asarray(c + p, c.dtype)], specs["c"], specs["b"], *push
        ),
    )
    values = {name: DEVICE.put(np.ones(spec.shape, jnp.dtype(spec.dtype))) for name, spec in specs.items()}
    taken, _ = DEVICE.compile(function, specs).apply(
        values, {"bfloat16": np.full(2, 2.0, ml_dtypes.bfloat16), "int32": np.full(1, 4, np.int32)}
    )
    assert list(taken) == ["bfloat16", "float32"]
    assert taken["bfloat16"].tolist() == [3.0, 3.0] + [1.0] * 6
    assert taken["float32"].tolist() == [5.0]
    assert np.asarray(values["c"]).tolist() == [3.0, 3.0]


def test_a_function_that_takes_nothing():
    function, values, described, specs = prepared()
    silent = DEVICE.compile(msgspec.structs.replace(described, takes=()), specs)
    assert silent.pull(values) == {}
    assert silent.apply(values, pushed(2.0)) == ({}, [])
    assert DEVICE.get(values["kernel"])[0] == -1.0


@pytest.mark.parametrize("update", [b"nonsense", bytes(1000)])
def test_what_is_no_update_is_refused(update):
    _, _, function, specs = prepared()
    with pytest.raises(ValueError, match="no exported function of JAX"):
        DEVICE.compile(msgspec.structs.replace(function, update=update), specs)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"reads": ("kernel", "count")},
            r"its update takes other arrays than the function has: int32\[\], float32",
        ),
        ({"reads": ("kernel",)}, "its update takes other arrays"),
        ({"updates": ("count", "kernel")}, "its update returns other arrays"),
        (
            {"pushed": (ArraySpec("gradient", (999,), "float32"),)},
            r"float32\[1000\]; the function has .*float32\[999\]",
        ),
    ],
)
def test_an_update_for_other_arrays_is_refused(changes, text):
    _, _, function, specs = prepared()
    with pytest.raises(ValueError, match=text):
        DEVICE.compile(msgspec.structs.replace(function, **changes), specs)


def test_arrays_that_do_not_fit_are_refused_with_the_remedy():
    big = ArraySpec("table", (1 << 40, 4), "float32")
    with pytest.raises(ValueError, match=r"take 17592.2 GB, of which table .* partitioner"):
        DEVICE.check([big], 0)
    with pytest.raises(ValueError, match=r"take 0.0 GB beside 1000000.0 GB that are there"):
        DEVICE.check([ArraySpec("a", (1,), "float32")], 10**15)


@pytest.mark.parametrize("dtype", ["float64", "int64", "float128"])
def test_arrays_that_jax_would_hold_in_another_dtype_are_refused(dtype):
    with pytest.raises(ValueError, match=rf"array x \({dtype}\[2\]\) .*jax_enable_x64"):
        DEVICE.check([ArraySpec("x", (2,), dtype)], 0)


def prepared_rows(rows, dim):
    arrays, function = adagrad(rows, dim)
    specs = held(*(array.spec for array in arrays))
    return compiled_rows(function, specs), function, specs


def compiled_rows(function, specs):
    columns = [columns_of([specs[name] for name in use.columns]) for use in function.tables]
    return DEVICE.compile(function, specs, columns)


@pytest.mark.parametrize("count", [1, 64, 100])
def test_rows_are_updated_as_the_rule_does(count):
    function, _, _ = prepared_rows(1000, 3)
    rng = np.random.default_rng(0)
    weights, sums, gradients = (rng.uniform(0.5, 1, (count, 3)).astype(np.float32) for _ in range(3))
    values = {"rate": DEVICE.put(np.float32(0.5))}
    columns, pushes = [Column((3,), np.dtype(np.float32))] * 2, [Column((3,), np.dtype(np.float32))]
    rows = RowBuffers([PaddedRows(Columns([RowStore(columns, 1)]), pushes)], [count])
    (given,) = rows.tables
    for into, array in zip((*given.rows, *given.pushed), (weights, sums, gradients), strict=True):
        into[...] = array
    made, summed = function.update_rows(values, rows, [()])[0]
    taken, [new] = function.apply(values, {}, rows, [()])
    assert taken == {}
    np.testing.assert_array_equal(new, [made, summed])
    assert function.apply(values, {}, RowBuffers([None], [0]), [()]) == ({}, [()])
    np.testing.assert_allclose(summed, sums + gradients**2, rtol=1e-6)
    np.testing.assert_allclose(made, weights - 0.5 * gradients / np.sqrt(summed), rtol=1e-5)
    before = made.copy()
    rows.flat["float32"][:] = np.nan  # its memory is used again
    np.testing.assert_array_equal(made, before)


def contents_of(arrays, function):
    """A store of zeros, with tables that have as many rows as their id says."""
    contents = Contents(DEVICE)
    contents.create(
        [(array.spec, np.zeros(array.shape, array.dtype)) for array in arrays],
        [array.name for array in arrays if array.by_rows],
    )
    contents.register(function)
    return contents


def test_several_tables_and_the_function_itself_in_one_program(compilations, monkeypatch):
    monkeypatch.setattr(row_updates, "_MOST", 1 << 7)
    arrays, function = adagrad(1000, 3)
    others, second = adagrad(500, 2, name="other")
    names = {"table": "table2", "slot": "slot2", "rate": "rate"}
    others = [msgspec.structs.replace(each, name=names[each.name]) for each in others[:2]]
    kernel, own = descent(1000)
    tables = (
        *function.tables,
        msgspec.structs.replace(second.tables[0], columns=("table2", "slot2")),
        TableUse(columns=("table",)),  # looked up only
    )
    contents = contents_of([*arrays, *others, *kernel], msgspec.structs.replace(own, tables=tables))
    for name, value in (("slot", 1.0), ("slot2", 1.0), ("rate", 0.5)):
        spec = contents.values.specs[name]
        contents.values.assign([(spec, np.full(spec.shape, value, spec.dtype))])
    compilations.clear()
    for _ in range(2):
        counts = (300, 10, 0)  # of the first table in three goes, as there are more than are updated at once
        ids = [np.arange(count) * 2 for count in counts]
        gradients = [np.ones(900, np.float32), np.full(20, 2.0, np.float32)]
        pushed = [np.full(1000, 1.0, np.float32), np.concatenate(ids), *gradients]
        (taken,) = contents.run("descent", contents.prepare("descent", counts, pushed))
    assert taken[0] == -1.0
    rows = {name: contents.values.rows(name).read(np.arange(1000))[0] for name in ("table", "slot")}
    assert rows["slot"][:, 0].tolist() == [3.0, 1.0] * 300 + [1.0] * 400
    np.testing.assert_allclose(rows["table"][598], -0.5 / np.sqrt(2) - 0.5 / np.sqrt(3), rtol=1e-6)
    assert not rows["table"][600:].any()
    assert contents.values.rows("slot2").read(np.array([18, 19]))[0].tolist() == [[9.0, 9.0], [1.0, 1.0]]
    assert len(compilations) == 2  # rows of the first table alone, and of both with the function


def test_a_table_that_is_also_taken_as_a_whole():
    arrays, function = adagrad(10, 2)
    contents = contents_of(arrays, msgspec.structs.replace(function, takes=("table",)))
    for name in ("slot", "rate"):
        spec = contents.values.specs[name]
        contents.values.assign([(spec, np.ones(spec.shape, spec.dtype))])
    pushed = [np.array([4]), np.full(2, 2.0, np.float32)]
    (taken,) = contents.run("adagrad", contents.prepare("adagrad", (1,), pushed))
    np.testing.assert_allclose(taken.reshape(10, 2)[4], -2 / np.sqrt(5), rtol=1e-6)
    assert np.count_nonzero(taken) == 2


def fixed(use, specs):
    """An update for as many rows as the table has."""
    row = ArraySpec("gradients", specs["table"].shape, "float32")
    return exported(
        lambda table, slot, g, rate: (table, slot), specs["table"], specs["slot"], row, specs["rate"]
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (lambda use, specs: {"update": b"nonsense"}, "its update of 8 bytes is no exported function of JAX"),
        (
            lambda use, specs: {"update": fixed(use, specs)},
            "its update of rows is not for any number of rows",
        ),
        (
            lambda use, specs: {"columns": ("table",)},
            "its update of rows takes other arrays than the function has",
        ),
        (
            lambda use, specs: {"reads": ()},
            "takes other arrays than the function has: .*; the function has float32",
        ),
        (
            lambda use, specs: {
                "update": exported_rows(
                    lambda table, slot, g, rate: (table,),
                    [specs["table"], specs["slot"]],
                    use.row_pushes,
                    [specs["rate"]],
                )
            },
            "its update of rows returns other arrays",
        ),
    ],
    ids=["nonsense", "fixed", "columns", "reads", "results"],
)
def test_updates_of_rows_that_do_not_fit(changes, text):
    _, function, specs = prepared_rows(10, 2)
    (use,) = function.tables
    changed = msgspec.structs.replace(use, **changes(use, specs))
    with pytest.raises(ValueError, match=text):
        compiled_rows(msgspec.structs.replace(function, tables=(changed,)), specs)
