"""What eager tapes use of JAX: it fails when JAX changes."""

import threading

import jax
import jax.numpy as jnp
import pytest
from jax.extend import core as jex

from muster.program.gradients._tape_trace import (
    TapeTrace,
    alias,
    hide_from,
    is_tape_open,
    open_records,
    show_to,
)

W = jnp.full((3, 3), 2.0)
X = jnp.ones((2, 3))


class All:
    """Follows everything, and keeps operands and results."""

    def __init__(self):
        self.noted = []

    def follows(self, values):
        return True

    def note(self, operation, operands, results):
        self.noted.append((operation, operands, results))


class Only(All):
    """Follows one array."""

    def __init__(self, array):
        super().__init__()
        self.array = array

    def follows(self, values):
        return any(value is self.array for value in values)


def noted(function, record=None):
    record = All() if record is None else record
    trace = show_to(record)
    try:
        function()
    finally:
        hide_from(record, trace)
    return record.noted


def current_trace():
    with jex.take_current_trace() as trace:
        return trace


def captures():
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ W), None), X, None, length=3)[0]


@jax.custom_vjp
def times_w(x):
    return x @ W


times_w.defvjp(lambda x: (x @ W, None), lambda _, g: (7 * g,))


@pytest.mark.parametrize(
    "function",
    [
        lambda: X @ W,
        captures,
        lambda: jax.lax.cond(X[0, 0] > 0, lambda: X @ W, lambda: X),
        lambda: jax.vmap(lambda row: row @ W)(X),
        lambda: jax.jit(lambda x: x @ W)(X),
        lambda: jax.jit(jax.jit(lambda x: x @ W))(X),
        lambda: jax.nn.relu(W),
        lambda: times_w(W),
        lambda: jax.checkpoint(lambda x: jnp.sin(x) @ W)(X),
        lambda: W[0],
        lambda: list(W),
        lambda: W.at[0].set(1.0),
        lambda: W.astype("float16"),
        lambda: jax.device_put(W),
        lambda: jax.grad(lambda x: jnp.sum(x @ W))(X),
    ],
)
def test_an_array_is_seen_as_itself_however_it_is_used(function):
    for _ in range(2):  # the second time JAX has compiled it
        assert noted(function, Only(W))


@pytest.mark.parametrize("function", [captures, lambda: times_w(X), lambda: jax.nn.gelu(X)])
def test_operations_can_be_done_again(function):
    for operation, operands, results in noted(function):
        for old, new in zip(results, operation(*operands), strict=True):
            assert jnp.array_equal(old, new)


def test_results_are_objects_of_their_own():
    [(_, [operand], [result])] = noted(lambda: jax.jit(lambda x: x)(X))
    assert operand is X
    assert result is not X
    assert noted(lambda: jax.lax.stop_gradient(X)) == []


def test_an_alias_has_the_same_memory():
    assert alias(W) is not W
    assert alias(W).unsafe_buffer_pointer() == W.unsafe_buffer_pointer()


def test_the_trace_before_comes_back():
    before = current_trace()
    with pytest.raises(ZeroDivisionError):
        noted(lambda: 1 / 0)
    assert current_trace() is before
    assert not is_tape_open()


def test_records_may_be_hidden_in_any_order():
    before, one, two = current_trace(), All(), All()
    trace, other = show_to(one), show_to(two)
    assert trace is other
    assert isinstance(current_trace(), TapeTrace)
    hide_from(one, trace)
    _ = X + 1
    assert open_records() == [two]
    assert len(two.noted) == 1
    assert not one.noted
    hide_from(two, other)
    assert current_trace() is before


def test_other_threads_are_not_seen():
    def elsewhere():
        assert not is_tape_open()
        _ = X + 1

    def run():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    assert noted(run) == []


def test_it_works_inside_of_traced_code():
    def traced(x):
        record = All()
        trace = show_to(record)
        y = jnp.sin(x) * 2
        hide_from(record, trace)
        assert len(record.noted) == 2
        return y

    assert jnp.allclose(jax.jit(traced)(X), jnp.sin(X) * 2)
    assert jnp.allclose(jax.grad(lambda x: traced(x).sum())(X), jnp.cos(X) * 2)
