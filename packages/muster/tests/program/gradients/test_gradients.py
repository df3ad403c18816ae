"""Gradients asked for in the middle of a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._errors import GradientError
from muster._keras import keras
from muster.program import GradientTape, gradients, minimize
from muster.program.trace._program import Program

X = np.array([1.0, 2.0, 3.0], np.float32)


def outputs_of(function, *args):
    program = Program(lambda *a: (function(*a), None), *args)
    return jax.jit(program.step)(program.initial, *args)[1]


def variable(value=(1.0, 2.0, 3.0)):
    return keras.Variable(np.array(value, np.float32), name="w")


def test_gradients_of_variables_and_of_inputs():
    def step(x):
        w = variable()
        gw, gx = gradients(jnp.sum(w**2 * x), [w, x])
        return {"gw": gw, "gx": gx}

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["gw"], 2 * X * X)
    np.testing.assert_allclose(out["gx"], X**2)


def test_sources_that_are_given_twice():
    def step(x):
        w = variable()
        h = w * x
        loss = jnp.sum(h**2)
        with GradientTape() as tape:
            loss = jnp.sum((w * x) ** 2)
        return {
            "twice": gradients(jnp.sum(h**2), [w, h, w, h]),
            "nested": tape.gradient(loss, {"all": [w], "logged": [w]}),
        }

    out = outputs_of(step, X)
    for found in (out["twice"][0], out["twice"][2], out["nested"]["all"][0], out["nested"]["logged"][0]):
        np.testing.assert_allclose(found, 2 * X**3)
    for found in out["twice"][1::2]:
        np.testing.assert_allclose(found, 2 * X**2)


def test_a_value_on_the_way_from_a_variable_that_was_updated_before():
    def step(x):
        w = variable()
        w.assign(w * 2.0)
        with GradientTape() as tape:
            h = w * x
            loss = jnp.sum(h * h)
        return dict(zip(("w", "h"), tape.gradient(loss, [w, h]), strict=True))

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["w"], 2 * (2 * X) * X**2)
    np.testing.assert_allclose(out["h"], 2 * (2 * X) * X)


def test_a_value_on_the_way_in_the_second_step_of_a_function():
    def step(x):
        w, found = variable(), []
        for _ in range(2):
            h = w * x
            by_w, by_h = gradients(jnp.sum(h**3), [w, h])
            found.append((by_w, by_h))
            w.assign(w - 0.1 * by_w)
        return {"w": [each[0] for each in found], "h": [each[1] for each in found]}

    out, w = outputs_of(step, X), X
    for by_w, by_h in zip(out["w"], out["h"], strict=True):
        np.testing.assert_allclose(by_h, 3 * (w * X) ** 2, rtol=1e-4)
        np.testing.assert_allclose(by_w, 3 * (w * X) ** 2 * X, rtol=1e-4)
        w = w - 0.1 * 3 * (w * X) ** 2 * X


def test_nested_tapes():
    def step(x):
        w = variable()
        with GradientTape() as outer:
            with GradientTape() as inner:
                y = jnp.sum(w**3)
            first = inner.gradient(y, w)
            penalty = jnp.sum(first**2)
        return {"second": outer.gradient(penalty, {"w": w})["w"], "first": first}

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["first"], 3 * X**2)
    np.testing.assert_allclose(out["second"], 36 * X**3)


def test_an_inner_gradient_that_goes_through_what_the_outer_one_does_not_reach():
    def step(x):
        a, b = variable(), keras.Variable(2.0, name="b")
        scaled = a * x  # does not depend on b
        inner = gradients(jnp.sum(scaled**2 * b), [a])[0]
        return {"outer": gradients(jnp.sum(inner), [b])[0]}

    # d/da sum((a x)^2 b) = 2 a x^2 b, and its sum by b is sum(2 a x^2)
    np.testing.assert_allclose(outputs_of(step, X)["outer"], np.sum(2 * X * X**2))


def test_two_gradients_share_what_comes_before():
    def step(x):
        w, v = variable(), keras.Variable(2.0, name="v")
        hidden = jnp.tanh(w * x)
        one = gradients(jnp.sum(hidden) * v, [w])[0]
        two = gradients(jnp.sum(hidden**2) * v, [w, v])
        return {"one": one, "two": two[0], "v": two[1]}

    out = outputs_of(step, X)
    reference = lambda w, v: jnp.sum(jnp.tanh(w * X) ** 2) * v  # noqa: E731
    two = jax.grad(reference, (0, 1))(jnp.array(X), 2.0)
    np.testing.assert_allclose(
        out["one"], jax.grad(lambda w: jnp.sum(jnp.tanh(w * X)) * 2.0)(jnp.array(X)), rtol=1e-6
    )
    np.testing.assert_allclose(out["two"], two[0], rtol=1e-6)
    np.testing.assert_allclose(out["v"], two[1], rtol=1e-6)


def test_gradients_inside_of_loops_branches_and_jit():
    def step(x):
        w = variable()

        def body(carry, row):
            g = gradients(jnp.sum((carry * row) ** 2), [carry])[0]
            return carry - 0.1 * g, g

        carry, _ = jax.lax.scan(body, w.value, jnp.stack([x, x]))
        jitted = jax.jit(lambda u: gradients(jnp.sum(u**3), [u])[0])(w.value)
        branch = jax.lax.cond(x[0] > 0, lambda u: gradients(jnp.sum(u**2), [u])[0], lambda u: u, w.value)
        return {"scan": carry, "jit": jitted, "cond": branch}

    out = outputs_of(step, X)
    expected = X.copy()
    for _ in range(2):
        expected = expected - 0.1 * 2 * expected * X**2
    np.testing.assert_allclose(out["scan"], expected, rtol=1e-5)
    np.testing.assert_allclose(out["jit"], 3 * X**2)
    np.testing.assert_allclose(out["cond"], 2 * X)


def test_custom_derivatives_hold():
    @jax.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, None), lambda _, g: (100 * g,))

    def step(x):
        w = variable()
        return {"g": gradients(jnp.sum(twice(w.value) + jax.nn.relu(w.value - 2)), [w])[0]}

    np.testing.assert_allclose(outputs_of(step, X)["g"], [100.0, 100.0, 101.0])


def test_values_of_any_shape_and_structure_are_summed():
    def step(x):
        w = variable()
        return {"g": gradients({"a": w * x, "b": [w * 2]}, [w])[0]}

    np.testing.assert_allclose(outputs_of(step, X)["g"], X + 2)


def test_what_a_target_does_not_depend_on_has_zeros():
    def step(x):
        w, unused = variable(), keras.Variable(5.0, name="unused")
        return {"g": gradients(jnp.sum(w**2), [w, unused])[1]}

    assert float(outputs_of(step, X)["g"]) == 0.0


def test_a_target_that_depends_on_no_source_is_an_error():
    def step(x):
        w = variable()
        return {"g": gradients(jnp.sum(x), [w])[0]}

    with pytest.raises(GradientError, match="does not depend on any of the variables"):
        outputs_of(step, X)


def test_integers_have_no_gradients():
    def step(x):
        w = variable()
        count = keras.Variable(1, dtype="int32", name="count")
        return {"g": gradients(jnp.sum(w * x), [count])[0]}

    with pytest.raises(GradientError, match="source of gradients has dtype int32"):
        outputs_of(step, X)


def test_a_tape_is_used_once_unless_persistent():
    def step(x, persistent):
        w = variable()
        with GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = jnp.sum(w * x)
        return {"a": tape.gradient(y, w), "b": tape.gradient(y, [x])[0]}

    assert set(outputs_of(lambda x: step(x, True), X)) == {"a", "b"}
    with pytest.raises(RuntimeError, match="persistent=True"):
        outputs_of(lambda x: step(x, False), X)


@pytest.mark.optimized
def test_the_forward_computation_is_compiled_once():
    def step(x):
        w = keras.Variable(np.ones((64, 64), np.float32), name="w")
        y = jnp.tanh(x @ w.value)
        return {"y": y, "g": gradients(jnp.sum(y), [w])[0]}

    x = np.ones((32, 64), np.float32)
    program = Program(lambda x: (step(x), None), x)
    text = jax.jit(program.step).lower(program.initial, x).compile().as_text()
    assert text.count("dot(") + text.count('custom_call_target="__onednn') == 2  # forward, and one for w


def test_gradients_of_values_computed_on_the_way():
    def step(x):
        w = variable()
        hidden = w * x
        gh, gw = gradients(jnp.sum(hidden**2), [hidden, w])
        norm = jnp.sqrt(jnp.sum(gradients(jnp.sum(hidden**3), [hidden])[0] ** 2))
        return {"gh": gh, "gw": gw, "penalty": gradients(norm, [w])[0]}

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["gh"], 2 * X * X)
    np.testing.assert_allclose(out["gw"], 2 * X**3)
    expected = jax.grad(lambda w: jnp.sqrt(jnp.sum((3 * (w * X) ** 2) ** 2)))(jnp.array(X))
    np.testing.assert_allclose(out["penalty"], expected, rtol=1e-5)


def test_a_variable_that_was_updated_since_the_loss_was_computed():
    def step(x):
        w, a, b = variable(), keras.Variable(2.0, name="a"), keras.Variable(3.0, name="b")
        one, two = jnp.sum(w * x) * a, jnp.sum(w**2) * b
        w.assign(w - gradients(one, [w])[0])  # as the first of two optimizers does
        after = jnp.sum(w.value * x)
        return {"w": gradients(two, [w, b])[0], "both": gradients(two + after, [w])[0]}

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["w"], 2 * X * 3)
    np.testing.assert_allclose(out["both"], 2 * X * 3 + X)


def test_gradients_end_at_what_was_assigned():
    def step(x):
        w, a = variable(), keras.Variable(2.0, name="a")
        a.assign(jnp.sum(w * x))
        return {"w": gradients(jnp.sum(w * x) * a, [w])[0]}

    np.testing.assert_allclose(outputs_of(step, X)["w"], 14 * X)  # and not twice as much


def test_what_an_assignment_returns_is_the_variable():
    def step(x):
        w, a = variable(), keras.Variable(2.0, name="a")
        returned = a.assign(jnp.sum(w * x))
        by_w, by_a = gradients(jnp.sum(w * x) * returned, [w, a])
        return {"w": by_w, "a": by_a}

    found = outputs_of(step, X)
    np.testing.assert_allclose(found["w"], 14 * X)
    np.testing.assert_allclose(found["a"], 14)


def test_the_second_of_two_networks_learns_from_the_first_as_it_is():
    def step(x):
        critic, maker = keras.Variable(2.0, name="critic"), variable()
        adams = [keras.optimizers.Adam(0.1), keras.optimizers.Adam(0.1)]
        with GradientTape() as tape:
            loss = critic * 0.0 * jnp.sum(maker * x)  # Adam divides by the root of a square of this gradient
        adams[0].apply(tape.gradient(loss, [critic]), [critic])
        with GradientTape() as tape:
            loss = critic * jnp.sum(maker * x)
        return {"maker": tape.gradient(loss, [maker])[0]}

    np.testing.assert_allclose(outputs_of(step, X)["maker"], 2 * X)


def test_some_targets_of_a_tape_have_weights():
    def step(x):
        w = variable()
        with GradientTape() as tape:
            targets = [w * x, w * 5]
        return {"gw": tape.gradient(targets, w, output_gradients=[None, x])}

    np.testing.assert_allclose(outputs_of(step, X)["gw"], 6 * X)


def test_spectral_normalization_trains():
    def step(x):
        layer = keras.layers.SpectralNormalization(keras.layers.Dense(3))
        loss = jnp.mean(layer(x, training=True) ** 2)
        minimize(keras.optimizers.SGD(0.1), loss)
        return {"loss": loss}

    program = Program(lambda x: (step(x), None), np.ones((4, 5), np.float32))
    run = jax.jit(program.step)
    state, first = run(program.initial, np.ones((4, 5), np.float32))
    assert np.isfinite(run(state, np.ones((4, 5), np.float32))[1]["loss"])


def test_an_error_names_the_users_line_that_asked():
    def step(x):
        w = variable()
        return {"g": gradients(jnp.sum(x), [w])[0]}

    with pytest.raises(GradientError, match=r"asked for in .*test_gradients.py:\d+"):
        outputs_of(step, X)


def test_what_is_computed_before_a_tape_opens_is_constant():
    def step(x):
        w = variable()
        before = w * x
        with GradientTape(persistent=True) as outer:
            y = before * w
            with GradientTape() as inner:
                z = y * w
            dz = inner.gradient(jnp.sum(z), w)  # of which y is constant
            total = jnp.sum(dz * w)
        with GradientTape() as late:
            result = jnp.sum(before * x)
            late.watch(before)
        return {
            "y": outer.gradient(jnp.sum(y), w),
            "dz": dz,
            "total": outer.gradient(total, w),
            "before": before,
            "late": late.gradient(result, [before, w])[0],
        }

    out = outputs_of(step, X)
    w = X
    np.testing.assert_allclose(out["before"], w * X)
    np.testing.assert_allclose(out["y"], w * X)
    np.testing.assert_allclose(out["dz"], w * X * w)
    np.testing.assert_allclose(out["total"], w * X * w + w * w * X)
    np.testing.assert_allclose(out["late"], X)


def test_a_gradient_through_what_was_computed_before_a_later_tape_opened():
    def step(x):
        w = variable()
        with GradientTape() as early:
            before = 3 * w
            with GradientTape() as late:
                first = early.gradient(jnp.sum(before + w**3 * x), w)
                total = jnp.sum(first * w + before * w)  # of which `before` is constant
        return {"first": first, "second": late.gradient(total, w)}

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["first"], 3 + 3 * X**2 * X, rtol=1e-6)
    np.testing.assert_allclose(out["second"], 3 + 9 * X**2 * X + 3 * X, rtol=1e-6)


def test_a_tape_around_loops_and_branches_and_one_that_begins_anew():
    def step(x):
        w = variable()
        before = w * x
        with GradientTape() as tape:
            lost = w * w
            tape.reset()
            kept = jax.lax.cond(x[0] > 0, lambda: before * w, lambda: before)
            total = jnp.sum(jax.lax.fori_loop(0, 2, lambda _, value: value * w, kept) + lost)

        @jax.jit
        def of_a_part():
            with GradientTape() as part:
                value = jnp.sum(before * w**2)
            return part.gradient(value, w)

        return {"total": tape.gradient(total, w), "part": of_a_part()}

    out = outputs_of(step, X)
    np.testing.assert_allclose(out["total"], 3 * X * X * X**2, rtol=1e-6)
    np.testing.assert_allclose(out["part"], X * X * 2 * X, rtol=1e-6)


def test_a_tape_knows_the_variables_that_a_step_has_read():
    def step(x):
        read, frozen, unread, later = (
            variable(),
            keras.Variable(X, trainable=False, name="frozen"),
            keras.Variable(X, name="unread"),
            keras.Variable(X, name="later"),
        )
        with GradientTape() as outer:
            with GradientTape() as tape:
                total = jnp.sum(read * frozen * x)
            total = total + jnp.sum(later * 1)
        assert [each.name for each in tape.watched_variables()] == ["w"]
        assert [each.name for each in outer.watched_variables()] == ["w", "later"]
        del unread
        return {"grads": outer.gradient(total, outer.watched_variables())[0]}

    np.testing.assert_allclose(outputs_of(step, X)["grads"], X * X)
