"""Exported updates on a server: compiled once, in place where nobody reads, refused if they are none."""

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from muster.ps import _memory
from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import FlatLayout
from muster.ps._plan import Plan
from muster.ps._replies import RefusedError
from muster.ps._store import Store
from muster.ps.contents.updates import JaxDevice

SMALL = (ArraySpec("w", (2,), "float32"),)


def momentum(pulled, kept, pushed):
    slots = {name: 0.9 * slot + pushed[name] for name, slot in kept.items()}
    return {name: value - 0.1 * slots[name] for name, value in pulled.items()}, slots


def plan_of(update, dtypes=("float32",), size=1000, names="wsg"):
    lists = [tuple(ArraySpec(f"{name} {dtype}", (size,), dtype) for dtype in dtypes) for name in names]
    shapes = [
        {name: jax.ShapeDtypeStruct((length,), name) for name, length in FlatLayout(each).sizes.items()}
        for each in lists
    ]
    leaves, structure = jax.tree.flatten(shapes)

    def run(*arrays):
        return jax.tree.leaves(update(*jax.tree.unflatten(structure, arrays)))

    exported = jax.export.export(jax.jit(run))(*leaves)
    pulled, kept, pushed = lists
    return Plan(pulled=pulled, kept=kept, pushed=pushed, update=bytes(exported.serialize()))


class Values:
    """The values of a plan as a server holds them, by their kind and dtype."""

    def __init__(self, plan):
        self._held = Store(JaxDevice())
        self._held.take_plan(plan.encode())
        self._contents, self._name = self._held.contents, self._held.fingerprint
        self._sizes = [FlatLayout(each).sizes for each in (plan.pulled, plan.kept, plan.pushed)]

    def set(self, pulled, kept):
        self._held.change(messages.Initialize(), [*pulled.values(), *kept.values()])

    def apply(self, pushed):
        self._contents.run(self._name, self._contents.prepare(self._name, (), [*pushed.values()]))

    def pulled(self):
        return dict(zip(self._sizes[0], self._contents.pull(self._name), strict=True))

    def kept(self):
        everything = self._contents.values.flat()
        return dict(zip(self._sizes[1], everything[len(self._sizes[0]) :], strict=True))


def flat(value, dtypes=("float32",), size=1000):
    return {dtype: np.full(size, value, dtype) for dtype in sorted(dtypes)}


def address(array):
    return array.__array_interface__["data"][0]


def test_an_update_of_several_dtypes(compilations):
    dtypes = ("float32", "bfloat16")
    plan = plan_of(momentum, dtypes)
    compilations.clear()
    rows = Values(plan)
    rows.set(flat(1.0, dtypes), flat(0.0, dtypes))
    for _ in range(3):
        rows.apply(flat(1.0, dtypes))
    assert list(rows.pulled()) == ["bfloat16", "float32"]
    np.testing.assert_allclose(rows.pulled()["float32"], 1 - 0.1 * (1 + 1.9 + 2.71), rtol=1e-6)
    np.testing.assert_allclose(rows.kept()["float32"], 2.71, rtol=1e-6)
    assert rows.kept()["bfloat16"].dtype == ml_dtypes.bfloat16
    assert len(compilations) == 1


def test_memory_that_is_being_sent_is_not_written_and_other_memory_is():
    rows = Values(plan_of(momentum))
    rows.set(flat(1.0), flat(0.0))
    rows.apply(flat(1.0))
    sent = rows.pulled()["float32"].view(np.uint8).data  # as the bytes of a send
    before = bytes(sent)
    rows.apply(flat(1.0))
    assert bytes(sent) == before
    del sent
    places = address(rows.pulled()["float32"]), address(rows.kept()["float32"])
    rows.apply(flat(1.0))
    assert (address(rows.pulled()["float32"]), address(rows.kept()["float32"])) == places


def test_what_was_given_may_be_overwritten():
    def slow(pulled, kept, pushed):
        return jax.tree.map(lambda array: jnp.sin(jnp.sin(jnp.sin(array))), pushed), pulled

    size = 3_000_000  # so that it would still run when `apply` returned
    rows = Values(plan_of(slow, size=size))
    layout = FlatLayout([ArraySpec("w", (size,), "float32")])
    values, slots, pushed = (layout.allocate() for _ in range(3))
    for buffer, value in ((values, 1.0), (slots, 2.0), (pushed, 0.0)):
        buffer["float32"][:] = value
    rows.set(values, slots)
    values["float32"][:] = 9.0
    rows.apply(pushed)
    pushed["float32"][:] = 9.0
    assert not rows.pulled()["float32"].any()
    assert np.unique(rows.kept()["float32"]) == [1.0]


def test_a_plan_without_an_update():
    rows = Values(Plan(pulled=(ArraySpec("w", (2,), "int8"),)))
    rows.set({"int8": np.ones(2, np.int8)}, {})
    rows.apply({})
    assert rows.pulled()["int8"].tolist() == [1, 1]


def test_an_update_without_slots():
    rows = Values(plan_of(lambda pulled, kept, pushed: (jax.tree.map(jnp.add, pulled, pushed), kept)))
    rows.set(flat(1.0), flat(5.0))
    rows.apply(flat(2.0))
    assert rows.pulled()["float32"][0] == 3.0
    assert rows.kept()["float32"][0] == 5.0


def test_what_is_no_update_is_refused():
    for update in (b"nonsense", bytes(1000), plan_of(momentum).update[:100]):
        with pytest.raises(RefusedError, match="no exported function of JAX"):
            Values(Plan(pulled=SMALL, update=update))


def test_arrays_that_do_not_fit_are_refused_with_the_remedy():
    big, small = ArraySpec("table", (1 << 40, 4), "float32"), ArraySpec("bias", (4,), "float32")
    with pytest.raises(
        RefusedError, match=r"take 17592.2 GB, of which table .* has 17592.2 GB, .* partitioner"
    ):
        Values(Plan(pulled=(small, big)))


@pytest.mark.parametrize("dtype", ["float64", "int64", "float128"])
def test_arrays_that_jax_would_hold_in_another_dtype_are_refused(dtype):
    arrays = ArraySpec("w", (2,), "float32"), ArraySpec("x", (2,), dtype)
    with pytest.raises(RefusedError, match=rf"array x \({dtype}\[2\]\) .*jax_enable_x64"):
        Values(Plan(pulled=arrays))


def test_the_limit_is_that_of_the_container(tmp_path, monkeypatch):
    limits = tmp_path / "max", tmp_path / "limit_in_bytes", tmp_path / "none"
    monkeypatch.setattr(_memory, "_LIMITS", limits)
    for text in ("max\n", "123456\n"):
        whole = _memory.memory_bytes()
        assert whole > 1 << 28
        limits[0].write_text(text)
    assert _memory.memory_bytes() == 123456


def test_an_update_for_other_arrays_is_refused():
    plan, other = plan_of(momentum), plan_of(momentum, size=999)
    with pytest.raises(
        RefusedError, match=r"takes other arrays .*float32\[999\].*the function has float32\[1000\]"
    ):
        Values(Plan(pulled=plan.pulled, kept=plan.kept, pushed=plan.pushed, update=other.update))
    fewer = plan_of(lambda pulled, kept, pushed: (pulled, {}))
    with pytest.raises(RefusedError, match="returns other arrays"):
        Values(fewer)


def test_arrays_that_are_too_large_are_refused_with_the_servers_that_they_need(monkeypatch):
    monkeypatch.setattr("muster.ps.contents.updates.memory_bytes", lambda: 10**9)
    tables = [ArraySpec(name, (10**7, 16), "float32") for name in ("table", "slot")]
    with pytest.raises(
        ValueError, match=r"take 1\.3 GB beside 1\.0 GB .* job 3 times as many parameter servers"
    ):
        JaxDevice().check(tables, held=10**9)
