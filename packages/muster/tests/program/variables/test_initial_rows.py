"""Initial values by rows: those of the whole value, without the rest of it."""

import jax
import numpy as np
import pytest

from muster._keras import keras
from muster.program.variables import InitialValue, _initial_values, initial_rows
from muster.ps import ArraySpec
from muster.ps.contents.updates import JaxDevice

SHAPE = (10, 3)
MIB = 1 << 20
TOLERANCES = {"float32": 1e-6, "bfloat16": 1e-2}

DRAWN = {
    "uniform": keras.initializers.RandomUniform(seed=1),
    "normal": keras.initializers.RandomNormal(stddev=2.0, seed=2),
    "truncated": keras.initializers.TruncatedNormal(seed=3),
    "glorot": keras.initializers.GlorotUniform(seed=4),
    "he": keras.initializers.HeNormal(seed=5),
    "variance": keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal", seed=6),
    "zeros": keras.initializers.Zeros(),
    "constant": keras.initializers.Constant(3),
}
WHOLE = {
    "orthogonal": keras.initializers.Orthogonal(seed=7),
    "identity": keras.initializers.Identity(),
    "matrix": keras.initializers.Constant(np.arange(30.0).reshape(10, 3)),
    "function": lambda shape, dtype: np.arange(30.0, dtype=dtype).reshape(shape),
    "array": np.arange(30.0, dtype="float32").reshape(SHAPE),
}


# JAX has no QR decomposition of bfloat16.
CASES = [*((name, "float32") for name in [*DRAWN, *WHOLE]), *((name, "bfloat16") for name in DRAWN)]


@pytest.mark.samples(
    "normal-float32",
    "uniform-float32",
    "truncated-bfloat16",
    "he-float32",
    "orthogonal-float32",
    "zeros-float32",
    "array-float32",
    "constant-bfloat16",
)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_rows_are_those_of_the_whole(name, dtype):
    initial = {**DRAWN, **WHOLE}[name]
    rows = initial_rows(initial, SHAPE, dtype)
    whole = initial if not callable(initial) else np.asarray(initial(SHAPE, dtype=dtype))
    for start, stop in ((0, 10), (0, 4), (4, 7), (9, 10)):
        found = rows(start, stop)
        assert found.dtype == dtype
        # XLA rounds alike only where it fuses alike.
        np.testing.assert_allclose(
            found.astype("float32"), whole[start:stop].astype("float32"), rtol=TOLERANCES[dtype]
        )


@pytest.mark.parametrize("name", DRAWN)
def test_rows_of_a_large_variable_need_no_memory_for_the_others(name):
    rows = initial_rows(DRAWN[name], (1 << 40, 4), "float32")  # 16 TiB
    found = rows((1 << 40) - 3, 1 << 40)
    assert found.shape == (3, 4)
    assert np.isfinite(found).all()
    if name not in ("zeros", "constant"):
        assert len(np.unique(np.concatenate([found, rows(5, 8)]))) == 24


def test_many_rows_are_computed_some_at_a_time():
    shape = (3 * MIB // 4, 2)  # one and a half times as many elements as are drawn at once
    initial = keras.initializers.RandomUniform(seed=1)
    found = initial_rows(initial, shape, "float32")(1, shape[0])
    np.testing.assert_allclose(found, np.asarray(initial(shape))[1:], rtol=1e-6)


def test_scalars_and_variables_without_rows_have_a_value():
    assert initial_rows(keras.initializers.Constant(3), (), "int32")(0, 1).item() == 3
    assert initial_rows(np.float32(2), (), "float32")(0, 1) == 2
    assert initial_rows(DRAWN["uniform"], (0, 3), "float32")(0, 0).shape == (0, 3)


def test_an_initializer_that_knows_parts_is_asked_for_them():
    calls = []

    def by_shard(shape, dtype=None, shard_info=None):
        calls.append((shard_info.shape, shard_info.offset))
        return np.full(shard_info.shape, len(calls), dtype)

    rows = initial_rows(by_shard, SHAPE, "float32")
    assert rows(0, 4)[0, 0] == 1
    assert rows(4, 10)[0, 0] == 2
    assert calls == [((4, 3), (0, 0)), ((6, 3), (4, 0))]

    def by_partition(shape, dtype=None, partition_shape=None, partition_offset=None):
        return np.full(partition_shape, partition_offset[0], dtype)

    assert initial_rows(by_partition, SHAPE, "float32")(4, 10).tolist() == [[4.0] * 3] * 6


def test_what_computes_all_rows_is_asked_once():
    calls = []

    def initial(shape, dtype):
        calls.append(shape)
        return np.zeros(shape, dtype)

    rows = initial_rows(initial, SHAPE, "float32")
    rows(0, 4), rows(4, 10)
    assert calls == [SHAPE]


def test_rows_are_computed_while_something_is_traced():
    found = []

    @jax.jit
    def traced(x):
        found.append(initial_rows(DRAWN["uniform"], SHAPE, "float32")(2, 4))
        return x

    traced(1.0)
    np.testing.assert_allclose(found[0], np.asarray(DRAWN["uniform"](SHAPE))[2:4], rtol=1e-6)


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("name", ["truncated", "constant", "orthogonal"])
def test_a_value_that_is_made_later_is_the_same(name, in_pieces, monkeypatch):
    initial = {**DRAWN, **WHOLE}[name]
    monkeypatch.setattr(_initial_values, "_LEAST_LATER_BYTES", 100)
    if in_pieces:
        monkeypatch.setattr(_initial_values, "_IN_PIECES_BYTES", 0)
        monkeypatch.setattr(_initial_values, "_DRAWN", 1)
    value = InitialValue(initial, SHAPE, "float32")
    assert value.may_wait
    assert not InitialValue(initial, (5, 3), "float32").may_wait  # small
    expected = np.asarray(initial(SHAPE, dtype="float32"))
    np.testing.assert_allclose(value.make(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-6)


def test_what_may_be_another_value_later_is_made_at_once(monkeypatch):
    monkeypatch.setattr(_initial_values, "_LEAST_LATER_BYTES", 0)
    for name in ("function", "array"):
        assert not InitialValue(WHOLE[name], SHAPE, "float32").may_wait


@pytest.mark.samples("uniform-float32", "constant-bfloat16")
@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in DRAWN), ("constant", "bfloat16")]
)
def test_another_process_makes_the_same_rows(name, dtype, monkeypatch):
    monkeypatch.setattr(_initial_values, "_DRAWN", 10)  # three rows at a time
    value = InitialValue(DRAWN[name], SHAPE, dtype)
    whole = np.asarray(DRAWN[name](SHAPE, dtype=dtype)).astype("float32")
    for first in (0, 4):  # of all rows, or of those of one server
        spec = ArraySpec("table", (SHAPE[0] - first, *SHAPE[1:]), dtype)
        made = np.concatenate([*JaxDevice().make(value.function, spec, first)])
        assert made.dtype == dtype
        np.testing.assert_allclose(made.astype("float32"), whole[first:], rtol=TOLERANCES[dtype])
    with pytest.raises(ValueError, match="takes other arrays than that array has"):
        JaxDevice().make(value.function, ArraySpec("table", (5, 2, 7), dtype), 0)
    pieces = np.concatenate([*value.pieces()]).astype("float32")
    np.testing.assert_allclose(pieces, whole, rtol=TOLERANCES[dtype])


@pytest.mark.parametrize("name", WHOLE)
def test_an_initial_value_that_needs_all_rows_has_no_function(name):
    assert InitialValue(WHOLE[name], SHAPE, "float32").function is None
