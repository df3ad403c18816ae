"""A worker that takes only the rows that a batch looks up computes the same as with whole tables."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import divided_lookups
import muster
from divided_lookups import BATCHES, IDS, ROWS, UNITS, WEIGHTS, Served, check, shapes_of, variable
from muster import feature_column
from muster import optimizers as row_optimizers
from muster._errors import DatasetError
from muster._keras import keras
from muster._row_ids import NO_ROW, unique_ids
from muster.distribute import IndexedSlices, ShardedVariable
from muster.feature_column import input_layer, linear_model, transform_features
from muster.program.passes import LookupStep, NotByRowsError, split_at_pushes
from muster.program.trace import Program
from muster.program.variables._origins import VariableKind

OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "Adam": lambda: keras.optimizers.Adam(0.1, amsgrad=True),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True),
    "Ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "clipvalue": lambda: keras.optimizers.Adam(0.1, clipvalue=0.01),
    "clipnorm": lambda: keras.optimizers.Adam(0.1, clipnorm=0.01),
    "global_clipnorm": lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.01),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=8.0),
    "legacy SGD": lambda: row_optimizers.SGD(0.1, momentum=0.9),
    "legacy Adagrad": lambda: row_optimizers.Adagrad(0.1),
    "legacy Adam": lambda: row_optimizers.Adam(0.1),
    "legacy RMSprop": lambda: row_optimizers.RMSprop(0.1),
    "legacy Nadam": lambda: row_optimizers.Nadam(0.1),
    "legacy Ftrl": lambda: row_optimizers.Ftrl(0.1, l1_regularization_strength=0.001),
}


def trained(lookup, optimizer=OPTIMIZERS["Adam"], batch=BATCHES[0]):
    return divided_lookups.trained(lookup, optimizer, batch)


def by_layer(ids, **options):
    return keras.ops.mean(keras.layers.Embedding(ROWS, UNITS, **options)(ids), axis=1)


TABLE = "embedding/embeddings"
# Those by which TensorFlow, and muster, update only what was looked up.
LEAVE_OTHERS = ("SGD", "Adagrad", "legacy SGD", "legacy Adagrad", "legacy Ftrl")


@pytest.mark.samples("SGD", "Adagrad", "Ftrl")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_that_with_the_whole_table(name):
    check(trained(by_layer, OPTIMIZERS[name]), [TABLE], BATCHES, leaves_others=name in LEAVE_OTHERS)


def test_a_row_that_only_passes_no_gradient_is_left_as_it_is():
    def lookup(ids):
        table = variable().value
        first, other = jnp.take(table, ids[:, 0], axis=0), jnp.take(table, ids[:, 1], axis=0)
        return first + jax.lax.stop_gradient(other)

    program = trained(lookup, OPTIMIZERS["legacy SGD"])
    served = check(program, ["table"], BATCHES, leaves_others=True)
    (batch,) = ([ids, WEIGHTS[0]] for ids in [np.arange(18, dtype=np.int32).reshape(6, 3)])
    assert len(served.asked(program.initial, batch)["table"]) == 12
    new, _ = served.run(program.initial, *batch)
    changed = np.flatnonzero((np.asarray(new["table"]) != program.initial["table"]).any(1))
    assert changed.tolist() == batch[0][:, 0].tolist()


def jitted(ids):
    @jax.jit
    def inner(table, ids):
        return jax.nn.relu(jnp.take(table, ids, axis=0)).sum(1)

    return inner(variable().value, ids)


def with_a_derivative_of_its_own(ids):
    @jax.custom_jvp
    def inner(table, ids):
        return jnp.take(table, ids, axis=0).sum(1)

    @inner.defjvp
    def derive(primals, tangents):
        return inner(*primals), 2 * inner(tangents[0], primals[1])

    return inner(variable().value, ids) + inner(variable(name="fixed").value, ids)


def with_a_gradient_of_its_own(ids):
    @jax.custom_vjp
    def inner(table, ids):
        return jnp.take(table, ids, axis=0).sum(1)

    def backwards(ids, cotangent):
        return jnp.zeros((ROWS, UNITS)).at[ids].add(cotangent[:, None] * 3), None

    inner.defvjp(lambda table, ids: (inner(table, ids), ids), backwards)
    return inner(variable().value, ids)


def computed_with_the_whole_table(ids):
    table = jnp.tanh(variable().value * 2) + jnp.arange(UNITS, dtype="float32")
    return table[ids].sum(1) + jnp.linalg.norm(variable(name="other").value, axis=1, keepdims=True)[ids[:, 0]]


def single_elements(ids):
    return variable().value[ids, ids % UNITS]


def twice(ids):
    table = variable()
    rows = keras.ops.take(table, ids[:, 1:], axis=0)
    return keras.ops.take(table, ids[:, 0], axis=0) * rows.sum(1)


def masked(ids):
    rows = keras.layers.Embedding(ROWS, UNITS, mask_zero=True, name="table")(ids)
    return keras.layers.LSTM(3)(rows)


def drawn(ids):
    """Look up ids that the worker draws by itself."""
    random = keras.random.SeedGenerator(3)
    others = keras.random.randint((len(ids), 2), 0, ROWS, seed=random)
    table = variable()
    return keras.ops.take(table, ids, axis=0).sum(1) - keras.ops.take(table, others, axis=0).sum(1)


def in_halves(ids):
    table = keras.layers.Embedding(ROWS, UNITS, dtype="mixed_bfloat16", name="table")
    return keras.ops.cast(table(ids), "float32").sum(1)


def in_shards(ids):
    shards = [variable(rows, name) for name, rows in (("first", 30), ("second", ROWS - 30))]
    return ShardedVariable(shards).sparse_read(ids).sum(1)


LOOKUPS = {
    "jit": (jitted, ["table"]),
    "custom_jvp": (with_a_derivative_of_its_own, ["table"]),
    "custom_vjp": (with_a_gradient_of_its_own, ["table"]),
    "computed with": (computed_with_the_whole_table, ["table", "other"]),
    "indices": (lambda ids: variable().value[ids].sum(1), ["table"]),
    "clipped": (lambda ids: jnp.take(variable().value, ids * 2 - 9, axis=0, mode="clip").sum(1), ["table"]),
    "from the end": (lambda ids: variable().value[ids - 20].sum(1), ["table"]),
    "elements": (single_elements, ["table"]),
    "twice": (twice, ["table"]),
    "masked": (masked, ["table/embeddings"]),
    "drawn": (drawn, ["table"]),
    "shards": (in_shards, ["first", "second"]),
    "mixed_bfloat16": (in_halves, ["table/embeddings"]),
}


@pytest.mark.samples("masked", "twice", "elements", "mixed_bfloat16", "jit", "clipped", "indices")
@pytest.mark.parametrize("name", LOOKUPS)
def test_all_kinds_of_lookups(name):
    lookup, tables = LOOKUPS[name]
    check(trained(lookup), tables, BATCHES[:3])


def test_rows_that_are_updated_without_a_lookup():
    def train(ids, targets):
        table, counts = variable(), variable(name="counts")
        values = jnp.tile(targets, UNITS)
        gradient = IndexedSlices(values, ids[:, 0], (ROWS, UNITS))
        row_optimizers.SGD(0.1, momentum=0.9).apply_gradients([(gradient, table)])
        counts.assign_add(jnp.zeros((ROWS, UNITS)).at[ids[:, 1]].add(1.0))
        return {"mean": jnp.mean(values)}, None

    program = Program(train, *BATCHES[0])
    served = check(program, ["table", "counts"], BATCHES, leaves_others=True)
    assert served.lookups.takes == ()
    ids, targets = np.array(BATCHES[0][0]), BATCHES[0][1]
    ids[:2, 0] = -1, ROWS
    asked = served.asked(program.initial, (ids, targets))
    assert asked["table"].tolist() == np.unique(ids[2:, 0]).tolist()  # additions ignore what is out of range


COLUMN = feature_column.categorical_column_with_identity("ids", ROWS)
WEIGHTED = feature_column.weighted_categorical_column(COLUMN, "weights")


@pytest.mark.slow
@pytest.mark.parametrize("combiner", ["mean", "sqrtn", "sum"])
@pytest.mark.parametrize("column", [COLUMN, WEIGHTED], ids=["unweighted", "weighted"])
def test_feature_columns(column, combiner):
    embedding = feature_column.embedding_column(column, UNITS, combiner, max_norm=0.9)

    def lookup(features):
        linear = linear_model(features, [column])
        return keras.ops.concatenate([input_layer(features, [embedding]), linear], 1)

    def batch_of(ids, targets):
        ragged = np.where(np.arange(3) < ids[:, :1] % 4, ids, -1)
        weights = np.where(ragged < 0, 0, np.cos(ids)).astype(np.float32)
        return transform_features({"ids": ragged, "weights": weights}, [embedding]), targets

    batches = [batch_of(*batch) for batch in BATCHES[:3]]
    program = trained(lookup, OPTIMIZERS["legacy Adagrad"], batches[0])
    tables = [v.path for v in program.variables if v.trainable and v.shape[:1] == (ROWS,)]
    assert len(tables) == 2
    served = check(program, tables, batches, leaves_others=True)
    assert NO_ROW in np.asarray(served.ids([], batches[0])[tables[0]])


def tied(ids):
    table = variable().value
    return table[ids].sum(1) @ table.T


def regularized(ids):
    layer = keras.layers.Embedding(ROWS, UNITS, embeddings_regularizer="l2", name="table")
    found = layer(ids).sum(1)
    return found + layer.losses[0]


def in_a_loop(ids):
    table = variable().value
    return jax.lax.scan(lambda total, each: (total + table[each], None), jnp.zeros((6, UNITS)), ids.T)[0]


def in_a_branch(ids):
    table = variable().value
    return jax.lax.cond(ids[0, 0] > 3, lambda table: table[ids].sum(1), lambda table: table[ids[:, 0]], table)


def computed_again(ids):
    return jax.checkpoint(lambda table: jnp.sin(table[ids]).sum(1))(variable().value)


def by_one_hot(ids):
    return (jax.nn.one_hot(ids, ROWS) @ variable().value).sum(1)


def by_rows_of_another(ids):
    following = keras.Variable(np.arange(ROWS)[::-1].copy(), dtype="int32", trainable=False, name="next")
    return variable().value[following.value[ids]].sum(1)


def by_what_was_found(ids):
    table = variable().value
    best = jnp.argmax(table[ids].sum(1), axis=1)
    return table[best]


def with_another_array_of_rows(ids):
    return (variable().value * np.arange(ROWS, dtype="float32")[:, None])[ids].sum(1)


def two_as_one(ids):
    return (variable().value + variable(name="other").value)[ids].sum(1)


REFUSED = {
    "tied": (tied, "reads all of them by dot_general|reads all of them by transpose"),
    "regularized": (regularized, "reads all of them by reduce_sum"),
    "in a loop": (in_a_loop, "reads all of them by scan"),
    "in a branch": (in_a_branch, "reads all of them by cond"),
    "computed again": (computed_again, "reads all of them by remat"),
    "one-hot": (by_one_hot, "reads all of them by dot_general"),
    "rows of another": (by_rows_of_another, "the ids that it is asked for depend on next"),
    "what was found": (by_what_was_found, "the ids that it is asked for depend on table"),
    "another array": (with_another_array_of_rows, "another array of as many rows"),
    "two as one": (two_as_one, "another array of as many rows"),
}


def divided(program, *tables):
    return Served(program, tables, *BATCHES[0])


@pytest.mark.parametrize("name", REFUSED)
def test_other_uses_of_a_table_are_refused(name):
    lookup, message = REFUSED[name]
    program = trained(lookup)
    tables = [v.path for v in program.variables if v.trainable and "dense" not in v.path]
    with pytest.raises(NotByRowsError, match=message) as refused:
        divided(program, *tables)
    assert refused.value.table in tables
    assert str(refused.value).startswith(f"{refused.value.table}: ")


def test_a_table_may_not_be_a_result():
    def train(ids):
        table = keras.layers.Embedding(ROWS, UNITS)
        loss = keras.ops.mean(table(ids) ** 2)
        before = table.embeddings.value
        muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return {"table": before}, None

    program = Program(train, IDS[0], seed=1)
    step = split_at_pushes(program.step, program.initial, IDS[0], ())
    with pytest.raises(NotByRowsError, match="the step returns them"):
        LookupStep(step, [TABLE], program.initial, IDS[0])


def test_tables_that_are_updated_by_each_other_are_refused():
    def train(ids):
        table, average = variable(), variable(name="average")
        found = table.value[ids] + average.value[ids]
        step = muster.get_or_create_global_step()
        muster.minimize(keras.optimizers.SGD(0.1), keras.ops.mean(found**2), step, [table])
        average.assign(0.9 * average.value + 0.1 * table.value)
        return {}, None

    program = Program(train, IDS[0])
    step = split_at_pushes(program.step, program.initial, IDS[0], ())
    with pytest.raises(NotByRowsError, match="average, table are updated by each other"):
        LookupStep(step, ["table", "average"], program.initial, IDS[0])


def test_all_parts_can_be_exported():
    program = trained(by_layer)
    served = divided(program, TABLE)
    inputs = served.inputs(program.initial, BATCHES[1])
    part = served.lookups.update(TABLE, 16)
    taken = [program.initial[path] for path in part.takes]
    taken = [jax.ShapeDtypeStruct((16, *each.shape[1:]), each.dtype) if each.ndim else each for each in taken]
    for function, args in (
        (served.lookups.ids, ([], BATCHES[1])),
        (served.lookups.work, inputs),
        (part.function, (*taken, jax.ShapeDtypeStruct((16, UNITS), "float32"))),
    ):
        exported = jax.export.export(jax.jit(function), platforms=("cpu", "cuda"))(*args)
        again = jax.export.deserialize(exported.serialize())
        if function == served.lookups.work:
            made, expected = again.call(*args), served.work(*args)
            jax.tree.map(np.testing.assert_array_equal, made, expected)


optimizers = keras.optimizers
COUPLED = {
    "Lamb": (lambda: optimizers.Lamb(0.1), "the update of .*embeddings.* needs all of them"),
    "AdamW": (lambda: optimizers.AdamW(0.1), "weight_decay=0.004"),
    "weight_decay": (lambda: optimizers.SGD(0.1, weight_decay=0.1), "weight_decay=0.1"),
    "average": (lambda: optimizers.Adam(0.1, use_ema=True), "use_ema=True"),
    "accumulation": (lambda: optimizers.Adam(gradient_accumulation_steps=2), "gradient_accumulation_steps=2"),
    "scaled": (lambda: optimizers.LossScaleOptimizer(optimizers.AdamW(0.1)), "weight_decay=0.004"),
}


@pytest.mark.parametrize("name", COUPLED)
def test_optimizers_that_need_all_rows_are_refused(name):
    optimizer, message = COUPLED[name]
    with pytest.raises(NotByRowsError, match=message):
        divided(trained(by_layer, optimizer), TABLE)


def test_a_constraint_on_the_whole_table_is_refused():
    program = trained(lambda ids: by_layer(ids, embeddings_constraint="max_norm"))
    with pytest.raises(NotByRowsError, match="needs all of them: reduce_sum"):
        divided(program, TABLE)


def test_a_table_that_is_excluded_from_decay_is_not_refused():
    def optimizer():
        made = optimizers.AdamW(0.1, weight_decay=0.1)
        made.exclude_from_weight_decay(var_names=["embeddings"])
        return made

    check(trained(by_layer, optimizer), [TABLE], BATCHES[:2])


def test_a_table_that_is_not_trained_is_only_looked_up():
    program = trained(lambda ids: by_layer(ids, trainable=False))
    served = divided(program, TABLE)
    assert served.lookups.row_pushes == {TABLE: ()}
    assert served.lookups.update(TABLE, 4) is None
    rows, *others = served.inputs(program.initial, BATCHES[1])
    _, _, outputs = served.work(rows, *others)
    wanted = program.step(program.initial, *BATCHES[1])[1]
    np.testing.assert_allclose(outputs["loss"], wanted["loss"], rtol=1e-6)


@pytest.mark.samples("Adam")
@pytest.mark.parametrize("name", ["Adam", "legacy SGD", "clipnorm"])
def test_nothing_is_as_large_as_the_table(name):
    rows = 1_000_003

    def lookup(ids):
        layer = keras.layers.Embedding(rows, UNITS, embeddings_initializer="zeros", dtype="mixed_bfloat16")
        return keras.ops.cast(layer(ids), "float32").sum(1)

    def lay_out(rows, lookup):
        program = trained(lookup, OPTIMIZERS[name])
        shapes = shapes_of(program)
        own = [v.path for v in program.variables if v.kind in (VariableKind.SEED, VariableKind.METRIC)]
        step = split_at_pushes(lambda state, batch: program.step(state, *batch), shapes, BATCHES[0], own)
        divided = LookupStep(step, [TABLE], shapes, BATCHES[0])
        some = {TABLE: (np.arange(16), jax.ShapeDtypeStruct((16, UNITS), "float32"))}
        inputs = some, [shapes[path] for path in divided.takes], [], BATCHES[0]
        sent = jax.tree.map(lambda each: (each.shape, each.dtype), jax.eval_shape(divided.work, *inputs))
        ids = jax.eval_shape(divided.ids, [], BATCHES[0])
        compiled = [jax.jit(divided.work).lower(*inputs), jax.jit(divided.ids).lower([], BATCHES[0])]
        return ids[TABLE].shape, sent, [each.compile() for each in compiled]

    *large, programs = lay_out(rows, lookup)
    *small, _ = lay_out(ROWS, by_layer)
    assert large == small
    assert large[0] == (BATCHES[0][0].size,)
    of_rows = [(shape, str(dtype)) for shape, dtype in large[1][0] if shape[:1] == (16,)]
    seen = [((16, 1), "bool")] if name == "legacy SGD" else []
    assert of_rows == [((16, UNITS), "float32"), *seen]
    for program in programs:
        assert not re.search(rf"\[{rows}\b", program.as_text())
        assert program.memory_analysis().temp_size_in_bytes < 100_000


def test_lookups_of_the_same_ids_ask_once():
    def lookup(ids):
        table = variable()
        return (jnp.take(table.value, ids, axis=0) * jnp.take(table.value, ids, axis=0)).sum(1)

    served = check(trained(lookup), ["table"], BATCHES[:2])
    assert served.ids([], BATCHES[0])["table"].shape == (BATCHES[0][0].size,)


def test_ids_are_asked_for_once():
    assert unique_ids("table", np.array([7, 3, 7, NO_ROW, 0]), 8).tolist() == [0, 3, 7]
    assert unique_ids("table", np.array([], int), 8).tolist() == []


@pytest.mark.parametrize("wrong", [8, -1, 2**31 - 2])
def test_an_id_that_no_row_has_is_an_error(wrong):
    with pytest.raises(DatasetError, match=rf"^users: received an id value of {wrong} .* \[0, 8\)"):
        unique_ids("users", np.array([1, wrong, NO_ROW]), 8)


def test_ids_out_of_range_reach_the_host():
    served = divided(trained(lambda ids: variable().value[ids].sum(1)), "table")
    ids, targets = np.array(BATCHES[1][0]), BATCHES[1][1]
    ids[2, 1] = ROWS
    with pytest.raises(DatasetError, match=f"table: received an id value of {ROWS} "):
        served.asked({"table": np.zeros((ROWS, UNITS))}, (ids, targets))


def test_an_id_that_asks_for_no_row_gives_nans():
    program = trained(lambda ids: jnp.take(variable().value, ids, axis=0).sum(1))
    served = divided(program, "table")
    ids, targets = np.array(BATCHES[1][0]), BATCHES[1][1]
    ids[2, 1] = NO_ROW
    assert NO_ROW not in served.asked(program.initial, (ids, targets))["table"]
    _, outputs = served.run(program.initial, ids, targets)
    assert np.isnan(outputs["loss"])


def test_a_table_that_changes_whatever_is_looked_up_is_refused():
    def train(ids):
        table = variable()
        found = keras.ops.sum(table.value[ids])
        table.assign(table.value * 0.5)
        return {"found": found}, None

    program = Program(train, IDS[0])
    (table,) = program.initial
    step = split_at_pushes(program.step, program.initial, IDS[0], ())
    with pytest.raises(NotByRowsError, match="changes all of them, whatever it looks up"):
        LookupStep(step, [table], program.initial, IDS[0])
