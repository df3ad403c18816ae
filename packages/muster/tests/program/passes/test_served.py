"""A step that is divided between a worker and servers computes the same as in one piece."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster._errors import TraceError
from muster._keras import keras
from muster.program.passes import CoupledRowsError, by_rows, mark_pushed, split_at_pushes
from muster.program.trace import Program
from served_steps import OPTIMIZERS, RNG, X, Y, divided, program_of


def served(program, x, y):
    step = divided(program, x, y)
    compiled = jax.jit(step.work)
    updates = [(part, jax.jit(part.function)) for part in map(step.update, step.groups())]

    def run(state, batch):
        pushed, local, outputs = compiled(
            [state[p] for p in step.takes], [state[p] for p in step.local], batch
        )
        new = {**state, **dict(zip(step.local, local, strict=True))}
        for part, update in updates:
            taken = [state[path] for path in part.takes]
            new.update(zip(part.updates, update(*taken, *(pushed[i] for i in part.pushes)), strict=True))
        return new, outputs

    return step, run


@pytest.mark.samples("loss scale")
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_training_is_that_of_one_process(optimizer):
    program = program_of(optimizer)
    _, run = served(program, X, Y)
    whole = jax.jit(program.step)
    expected = state = program.initial
    for _ in range(5):
        expected, of_one = whole(expected, X, Y)
        state, outputs = run(state, (X, Y))
        np.testing.assert_allclose(outputs["loss"], of_one["loss"], rtol=1e-5)
        np.testing.assert_allclose(outputs["mean"], of_one["mean"], rtol=1e-4, atol=1e-6)
    assert state.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(state[path], value, rtol=1e-4, atol=1e-6, err_msg=path)


def test_a_worker_pushes_its_gradients_and_what_it_assigns():
    step, _ = served(program_of(OPTIMIZERS["Adam"]), X, Y)
    shapes = sorted(each.shape for each in step.pushed)
    weights = [(4,), (4,), (4,), (5, 4), (4, 1), (1,)]  # two of Dense, two of its normalization, two of Dense
    # The statistics of the normalization, two variables of the program's own, and two counters of steps.
    assert shapes == sorted([*weights, (4,), (4,), (), (), (), ()])
    assert not any("adam" in path for path in step.takes)
    assert len(step.local) == 3  # of the metric, and the seed of the dropout


def test_norms_are_pushed_as_numbers():
    plain, _ = served(program_of(OPTIMIZERS["Adam"]), X, Y)
    clipped, _ = served(program_of(OPTIMIZERS["global_clipnorm"]), X, Y)
    more = [each.shape for each in clipped.pushed]
    for each in plain.pushed:
        more.remove(each.shape)
    assert set(more) == {()}
    for group in clipped.groups():
        assert len(clipped.update(group).pushes) <= 1 + len(more)


def test_what_one_server_must_hold_is_a_weight_and_its_slots():
    step, _ = served(program_of(OPTIMIZERS["Adam"]), X, Y)
    groups = [group for group in step.groups() if len(group) > 1]
    assert len(groups) == 6
    for group in groups:
        assert sum("momentum" in path or "velocity" in path for path in group) == len(group) - 1 == 3
    assert sorted(path for group in step.groups() for path in group) == sorted(step.updated)


def test_results_may_not_depend_on_what_servers_make_of_a_push():
    def train(x):
        weight = keras.layers.Dense(1)
        loss = keras.ops.mean(weight(x))
        muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return {"after": jnp.sum(weight.kernel.value)}, None

    program = Program(train, X)
    with pytest.raises(TraceError, match="after it was updated"):
        split_at_pushes(lambda state, batch: program.step(state, batch), program.initial, X, ())


def table_and_update(optimizer):
    """A table of 10 rows, its slots, and how a push updates them."""

    def train(ids):
        table = keras.layers.Embedding(10, 3)
        loss = keras.ops.mean(table(ids) ** 2)
        muster.minimize(optimizer(), loss, muster.get_or_create_global_step())
        return {}, None

    program = Program(train, np.array([1, 5, 5, 9]), seed=1)
    step = split_at_pushes(program.step, program.initial, np.array([1, 5, 5, 9]), ())
    (group,) = (group for group in step.groups() if "embedding/embeddings" in group)
    part = step.update(group)
    return part, [program.initial[path] for path in part.takes] + [
        RNG.normal(size=step.pushed[i].shape).astype(np.float32) for i in part.pushes
    ]


@pytest.mark.samples("SGD", "Adam", "clipnorm", "accumulation")
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in ("Lamb", "loss scale")])
def test_an_update_is_computed_by_rows(name):
    part, args = table_and_update(OPTIMIZERS[name])
    expected = jax.jit(part.function)(*args)
    shapes = [jax.ShapeDtypeStruct(arg.shape, arg.dtype) for arg in args]
    made = []
    for rows in (slice(0, 4), slice(4, 7), slice(7, 10)):
        run = by_rows(part.function, shapes, rows.stop - rows.start)
        made.append(jax.jit(run)(*(arg[rows] if arg.ndim else arg for arg in args)))
    for whole, *shards in zip(expected, *made, strict=True):
        np.testing.assert_allclose(np.concatenate(shards) if whole.ndim else shards[0], whole, rtol=1e-5)


def test_an_update_that_couples_rows_is_refused():
    part, args = table_and_update(OPTIMIZERS["Lamb"])
    shapes = [jax.ShapeDtypeStruct(arg.shape, arg.dtype) for arg in args]
    with pytest.raises(CoupledRowsError, match="computes rows from others"):
        by_rows(part.function, shapes, 4)


def step_of(function, state, batch):
    return split_at_pushes(function, state, batch, (), returns_updated=True)


def test_what_is_added_in_several_places_is_pushed_as_one_addend():
    def function(state, batch):
        return {"count": jnp.sum(batch[1]) + (state["count"] + jnp.sum(batch[0])) + 1.0}, ()

    step = step_of(function, {"count": jnp.float32(5.0)}, np.ones((2, 3), np.float32))
    ((pushed,), _, _) = step.work([], [], np.ones((2, 3), np.float32))
    assert pushed == 7.0
    part = step.update(["count"])
    assert part.takes == ("count",)
    assert part.function(jnp.float32(100.0), pushed) == [107.0]


def test_a_marked_value_is_the_workers_although_it_depends_on_an_update():
    def function(state, batch):
        (gradient,) = mark_pushed([batch * 2.0])
        weight = state["weight"] - gradient
        after = jnp.sum(weight * batch)
        total, last = mark_pushed([state["total"] + after, after])
        (same,) = mark_pushed([state["same"]])
        return {"weight": weight, "total": total, "last": last, "same": same}, {"after": last}

    state = {name: jnp.float32(1.0) for name in ("last", "same", "total")}
    state["weight"] = jnp.ones(3, jnp.float32)
    batch = np.ones(3, np.float32)
    step = step_of(function, state, batch)
    pushed, _, results = step.work([state[path] for path in step.takes], [], batch)
    assert step.updated == ("weight", "last", "total")
    assert results["after"] == -3.0
    sums = sorted((each.shape, float(np.sum(each))) for each in pushed)
    assert sums == [((), -3.0), ((), -3.0), ((3,), 6.0)]
    total, last = step.update(["total"]), step.update(["last"])
    assert total.function(jnp.float32(10.0), pushed[total.pushes[0]]) == [7.0]
    assert last.takes == ()
    assert last.function(pushed[last.pushes[0]]) == [-3.0]


def test_servers_compute_moving_averages_of_the_values_that_they_have():
    def function(state, batch):
        mean = jnp.mean(batch, 0)
        return {
            "keras": state["keras"] * 0.9 + mean * 0.1,
            "tensorflow": state["tensorflow"] - (state["tensorflow"] - mean) * 0.1,
            "twice": (state["twice"] * 0.5 + mean) * 0.5 + batch[1],
            "divided": (state["divided"] + mean) / 2.0,
            "last": mean,
            "sorted": jnp.sort(state["sorted"]) * 0.5 + mean,
            "squared": state["squared"] * state["squared"] + 0.5 * mean,
            "inverse": mean / (1.0 + state["inverse"]),
        }, ()

    averages = ("keras", "tensorflow", "twice", "divided")
    names = (*averages, "last", "inverse", "sorted", "squared")
    batch = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    step = step_of(function, {name: jnp.zeros(2) for name in names}, batch)
    assert step.takes == ("inverse", "sorted", "squared")
    pushed, _, _ = step.work([jnp.zeros(2)] * 3, [], batch)
    made = {}
    for name in names:
        part = step.update([name])
        assert part.takes == ((name,) if name in averages else ())
        # Other workers have made 10 of the 0 that this one has computed with.
        taken = [jnp.full(2, 10.0) for _ in part.takes]
        (made[name],) = jax.jit(part.function)(*taken, *(pushed[i] for i in part.pushes))
    expected = {
        "keras": [9.2, 9.4],
        "tensorflow": [9.2, 9.4],
        "twice": [6.5, 10.5],
        "divided": [6, 7],
        "last": [2, 4],
        "inverse": [2, 4],
        "sorted": [2, 4],
        "squared": [1, 2],
    }
    for name, value in expected.items():
        np.testing.assert_allclose(made[name], value, rtol=1e-6, err_msg=name)


def test_a_marked_moving_average_is_the_servers_although_it_depends_on_an_update():
    def function(state, batch):
        (gradient,) = mark_pushed([batch * 2.0])
        weight = state["weight"] - gradient
        (average,) = mark_pushed([state["average"] * 0.5 + weight * batch])
        return {"weight": weight, "average": average}, ()

    state = {"weight": jnp.ones(3), "average": jnp.zeros(3)}
    batch = np.array([1.0, 2.0, 3.0], np.float32)
    step = step_of(function, state, batch)
    assert step.takes == ("weight",)
    pushed, _, _ = step.work([jnp.ones(3)], [], batch)
    part = step.update(["average"])
    assert part.takes == ("average",)
    (average,) = part.function(jnp.full(3, 10.0), *(pushed[i] for i in part.pushes))
    np.testing.assert_allclose(average, 5 + (1 - 2 * batch) * batch)


def test_what_a_moving_average_reads_of_an_update_is_no_push_of_that_update():
    def function(state, batch):
        (gradient,) = mark_pushed([batch * 2.0])
        weight = state["weight"] - gradient
        copy, average = mark_pushed([weight, state["average"] * 0.5 + weight])
        return {"weight": weight, "copy": copy, "average": average}, ()

    state = {name: jnp.zeros(2) for name in ("weight", "copy", "average")}
    batch = np.ones(2, np.float32)
    step = step_of(function, state, batch)
    pushed, _, _ = step.work([jnp.zeros(2)], [], batch)
    weight = step.update(["weight"])
    (new,) = weight.function(jnp.full(2, 100.0), *(pushed[i] for i in weight.pushes))
    assert new.tolist() == [98, 98]  # others have moved it meanwhile
    average = step.update(["average"])
    (new,) = average.function(jnp.full(2, 10.0), *(pushed[i] for i in average.pushes))
    assert new.tolist() == [3, 3]


def test_factors_of_a_batch_make_no_moving_average():
    # The mean over workers of what the factors multiply is not the product of their means.
    def function(state, batch):
        mean, rate = jnp.mean(batch), jnp.max(batch)
        return {"plain": state["plain"] - (state["plain"] - mean) * rate}, ()

    batch = np.array([0.5, 1.0], np.float32)
    step = step_of(function, {"plain": jnp.float32(2.0)}, batch)
    assert step.takes == ("plain",)
    assert step.update(["plain"]).takes == ()


def test_moving_averages_by_rows_take_what_workers_push():
    mask = np.arange(12, dtype=np.float32).reshape(4, 3)

    def function(state, batch):
        return {
            "average": state["average"] * mask + jnp.mean(state["weight"]) * jnp.mean(batch),
            "weight": state["weight"] + 1.0,
        }, ()

    shape = jax.ShapeDtypeStruct((4, 3), "float32")
    step = step_of(function, {"average": shape, "weight": shape}, np.ones(2, np.float32))
    old, weight = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    pushed, _, _ = step.work([weight], [], np.ones(2, np.float32))
    part = step.update(["average"])
    shapes = [shape, *(step.pushed[i] for i in part.pushes)]
    made = [
        by_rows(part.function, shapes, 2)(
            *(a[rows] if a.ndim else a for a in (old, *(pushed[i] for i in part.pushes)))
        )
        for rows in (slice(0, 2), slice(2, 4))
    ]
    np.testing.assert_allclose(
        np.concatenate([new for (new,) in made]), old * mask + weight.mean(), rtol=1e-5
    )


def test_constants_with_rows_are_refused_by_rows():
    mask = np.arange(12, dtype=np.float32).reshape(4, 3)
    with pytest.raises(CoupledRowsError, match="a constant has rows"):
        by_rows(lambda value: [value * mask], [jax.ShapeDtypeStruct((4, 3), "float32")], 2)


class CountedList(list):
    """Counts which of its items are looked at."""

    looked_at = 0

    def __getitem__(self, key):
        self.looked_at += 1
        return super().__getitem__(key)

    def __reversed__(self):
        self.looked_at += len(self)
        return super().__reversed__()


def test_updates_are_divided_in_time_in_proportion_to_the_variables():
    def looked_at(count):
        def step(x):
            weights = [keras.Variable(np.ones(3, np.float32), name=f"w{i}") for i in range(count)]
            loss = sum(jnp.sum(x * weight.value**2) for weight in weights)
            muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
            return {"loss": loss}, None

        split = divided(Program(step, X[0, :3]), X[0, :3])
        split._updates = CountedList(split._updates)
        parts = [split.update(group) for group in split.groups()]
        assert sum(len(part.updates) for part in parts) == len(split.updated)
        return split._updates.looked_at

    assert looked_at(40) < 5 * looked_at(10)
