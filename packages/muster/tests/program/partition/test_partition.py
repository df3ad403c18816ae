"""A step on a batch that workers divide computes what it does on one device."""

import functools
import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster import cpu
from muster._keras import keras
from muster.keras_hooks import patched_keras
from muster.program._replicas import Replicas, Shares
from muster.program.partition import partitioned
from muster.program.partition._sharding import IndivisibleError
from muster.program.passes import all_reduce_on_host, split_at_all_reduces

layers = keras.layers
ROWS = 12
RNG = np.random.default_rng(0)
FLAT = RNG.normal(size=(ROWS, 6)).astype(np.float32)
STEPS = RNG.normal(size=(ROWS, 5, 6)).astype(np.float32)
IMAGES = RNG.normal(size=(ROWS, 10, 10, 2)).astype(np.float32)
WORDS = RNG.integers(0, 20, (ROWS, 5)).astype(np.int32)
LABELS = RNG.integers(0, 3, ROWS).astype(np.int32)
WEIGHTS = np.linspace(0.5, 2.0, ROWS, dtype=np.float32)


def on_workers(function, state, batch, count):
    """Return the workers' results, stacked along a new first axis, and the size of each all-reduce."""
    sizes = []
    rows = jax.tree.map(lambda leaf: leaf.reshape(count, -1, *leaf.shape[1:]) if leaf.ndim else leaf, batch)

    def add(flat):
        sizes.append(flat.size)
        return jax.lax.psum(flat, "workers")

    def on_worker(index, rows):
        return partitioned(
            function, state, rows, Replicas(index=index, all_reduce=add, count=count, active=count)
        )

    axes = jax.tree.map(lambda leaf: 0 if leaf.ndim else None, batch)
    return jax.jit(jax.vmap(on_worker, (0, axes), axis_name="workers"))(jnp.arange(count), rows), sizes


def on_unequal_workers(function, state, batch, sizes):
    """Return the workers' results, where each has another number of rows, stacked along a new first axis."""
    steps, values = [], []
    for rank, own in enumerate(sizes):
        mine, index = slice(sum(sizes[:rank]), sum(sizes[: rank + 1])), jnp.uint32(rank)
        rows = jax.tree.map(lambda leaf, mine=mine: leaf[mine] if leaf.ndim else leaf, batch)

        def on_worker(state, rows, index, own=own):
            shares = Shares(sizes, own)
            count = len(sizes)
            replicas = Replicas(
                index=index, all_reduce=all_reduce_on_host, count=count, active=count, shares=shares
            )
            return partitioned(function, state, rows, replicas)

        steps.append(split_at_all_reduces(on_worker, state, rows, index, donated=0))
        values.append(jax.tree.leaves((state, rows, index)))
    for parts in zip(*(parts for parts, _ in steps), strict=True):
        outs = [
            jax.jit(part.function)(*(known[i] for i in part.takes))
            for part, known in zip(parts, values, strict=True)
        ]
        count = len(parts[0].sums)
        sums = [sum(each) for each in zip(*(out[:count] for out in outs), strict=True)]
        for out, known in zip(outs, values, strict=True):
            known += [*sums, *out[count:]]
    results = [jax.tree.unflatten(structure, out) for out, (_, structure) in zip(outs, steps, strict=True)]
    return jax.tree.map(lambda *each: jnp.stack(each), *results)


def check_same(function, state, batch, counts=(2, 3), unequal=False, **tolerance):
    """Compare with one device, if so asked also for unequal shares; return the size of each all-reduce."""
    expected = jax.tree.leaves(jax.jit(function)(state, batch))
    on_any = [on_workers(function, state, batch, count) for count in counts]
    sizes = on_any[-1][1]
    if unequal:
        on_any.append((on_unequal_workers(function, state, batch, (7, 5)), sizes))
    for found, _ in on_any:
        for each, complete in zip(jax.tree.leaves(found), expected, strict=True):
            assert each.dtype == complete.dtype
            for of_worker in each:
                np.testing.assert_allclose(of_worker, complete, **{"rtol": 2e-4, "atol": 2e-5} | tolerance)
    return sizes


def training(model, x, optimizer=None, metrics=()):
    """Keras' train_step of a model, its state and a batch."""
    keras.utils.set_random_seed(3)
    model.compile(
        optimizer or keras.optimizers.Adam(0.01, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy", *metrics],
    )
    batch = (x, LABELS, WEIGHTS)
    model._symbolic_build(data_batch=batch)
    variables = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in each] for each in variables)
    return model.train_step, state, batch


def sequential(*parts):
    return keras.Sequential([*parts, layers.Dense(3)])


def attention():
    x = keras.Input((5, 6))
    attended = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x)
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(attended)))


MODELS = {
    "dense": (lambda: sequential(layers.Dense(8, activation="relu"), layers.Dropout(0.2)), FLAT, 1),
    "batch normalization": (
        lambda: sequential(layers.Dense(4, use_bias=False), layers.BatchNormalization()),
        FLAT,
        5,
    ),
    "other normalizations": (
        lambda: sequential(
            layers.LayerNormalization(), layers.GroupNormalization(2), layers.UnitNormalization()
        ),
        FLAT,
        1,
    ),
    "convolutions": (
        lambda: sequential(
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.AveragePooling2D(2),
            layers.Flatten(),
        ),
        IMAGES,
        1,
    ),
    "grouped and strided": (
        lambda: sequential(
            layers.Conv2D(4, 3, groups=2, padding="same"),
            layers.Conv2D(4, 3, strides=2),
            layers.GlobalMaxPooling2D(),
        ),
        IMAGES,
        1,
    ),
    "separable": (
        lambda: sequential(
            layers.SeparableConv2D(4, 3), layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D()
        ),
        IMAGES,
        1,
    ),
    "transposed": (
        lambda: sequential(layers.Conv2DTranspose(4, 3, strides=2), layers.UpSampling2D(), layers.Flatten()),
        IMAGES,
        1,
    ),
    "embedding": (lambda: sequential(layers.Embedding(20, 5), layers.Flatten()), WORDS, 1),
    "recurrent": (lambda: sequential(layers.LSTM(5, return_sequences=True), layers.GRU(4)), STEPS, 1),
    "masked, both ways": (
        lambda: sequential(
            layers.Embedding(20, 5, mask_zero=True), layers.Bidirectional(layers.LSTM(4, dropout=0.1))
        ),
        WORDS,
        1,
    ),
    "attention": (attention, STEPS, 1),
}


# Those of them whose rules no operation below has; the others take long to compile for unequal shares.
UNEQUAL = ("convolutions", "batch normalization", "masked, both ways")


@pytest.mark.samples("batch normalization", "attention")
@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_training_is_that_of_the_whole_batch(name):
    build, x, count = MODELS[name]
    step, state, batch = training(build(), x)
    counts = (3,) if name == "dense" else (2,)
    assert len(check_same(step, state, batch, counts, unequal=name in UNEQUAL)) == count


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="oneDNN's package is for Linux on x86-64",
)
@pytest.mark.parametrize("layer", [layers.LayerNormalization, layers.BatchNormalization])
def test_normalization_by_kernels(layer, monkeypatch):
    """Gradients of scale and offset are sums over all workers' rows; so are a batch's mean and variance."""
    monkeypatch.setattr(cpu, "LEAST_NUMBERS", 1)
    model = sequential(layers.Dense(8, use_bias=False), layer(), layers.Flatten())
    step, state, batch = training(model, STEPS)
    with patched_keras():
        assert "muster_kernel" in str(jax.make_jaxpr(step)(state, batch))
        check_same(step, state, batch, (2,), unequal=True)


def test_gradients_of_many_variables_meet_at_once():
    x = hidden = keras.Input((6,))
    for _ in range(80):
        hidden = hidden + 0.1 * layers.Dense(6, activation="tanh")(hidden)
    model = keras.Model(x, layers.Dense(3)(hidden))
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)
    step, state, batch = training(model, FLAT, optimizer)
    sizes = []

    def on_worker(state, rows, index):
        def add(flat):
            sizes.append(flat.size)
            return all_reduce_on_host(flat)

        return partitioned(step, state, rows, Replicas(index=index, all_reduce=add, count=2, active=2))

    split_at_all_reduces(
        on_worker, state, jax.tree.map(lambda leaf: leaf[:6], batch), jnp.uint32(0), donated=0
    )
    weights = sum(value.size for value in state[0])
    assert len(sizes) == 1
    assert weights < sizes[0] < weights + 20  # each gradient once, and what the loss and metrics add up


TOP_TWO = (functools.partial(keras.metrics.SparseTopKCategoricalAccuracy, 2),)


@pytest.mark.samples("loss scaling", "top k")
@pytest.mark.parametrize(
    ("optimizer", "dtype", "metrics"),
    [
        (keras.optimizers.SGD(0.1, momentum=0.9), "mixed_float16", ()),
        (keras.optimizers.Adagrad(0.1), "mixed_bfloat16", ()),
        (keras.optimizers.AdamW(0.01, global_clipnorm=1.0), "float32", TOP_TWO),
        (keras.optimizers.RMSprop(0.01, use_ema=True), "float32", ()),
    ],
    ids=["loss scaling", "bfloat16", "top k", "averages"],
)  # fmt: skip
def test_optimizers_and_metrics(optimizer, dtype, metrics):
    model = sequential(layers.Dense(8, activation="relu", dtype=dtype, kernel_regularizer="l2"))
    step, state, batch = training(model, FLAT, optimizer, [make() for make in metrics])
    loose = {} if dtype == "float32" else {"rtol": 2e-2, "atol": 2e-3}
    check_same(step, state, batch, counts=(2,), **loose)


def test_the_area_under_a_curve():
    model = keras.Sequential([layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy", metrics=[keras.metrics.AUC()])
    batch = (FLAT, (LABELS > 0).astype(np.float32)[:, None])
    model._symbolic_build(data_batch=batch)
    groups = (model.trainable_variables, model.non_trainable_variables, model.metrics_variables)
    check_same(model.test_step, tuple([v.value for v in each] for each in groups), batch, counts=(2,))


def test_rows_that_are_results_are_gathered():
    def predict(state, batch):
        logits = batch @ state
        return {"logits": logits, "turned": logits.T, "positive": logits > 0, "class": logits.argmax(1)}

    check_same(predict, jnp.asarray(FLAT[:6]), FLAT, unequal=True)


def lstm(state, rows):
    """The gradients of an LSTM of one unit, by muster's own loops."""

    def loss(state, rows):
        h, c, states = cpu.lstm(True, True, rows, rows[:, 0, :1], rows[:, 1, :1], state, state[:1], state[0])
        return jnp.sum(h * c) + jnp.sum(jnp.sin(states))

    return jax.grad(loss, (0, 1))(state, rows)


def gru(state, rows):
    def loss(state, rows):
        h, states = cpu.gru(
            False, True, rows, rows[:, 0, :1], state[:, :3], state[:1, 1:], state[0, :3], state[1, :3]
        )
        return jnp.sum(h) + jnp.sum(jnp.sin(states))

    return jax.grad(loss, (0, 1))(state, rows)


# Steps that use state of shape (6, 4) and rows (12, 5, 6).
WHOLE = {
    "lstm": lstm,
    "gru": gru,
    "largest": lambda state, rows: (rows.max(0), rows.min((0, 2)), (rows > 0).all(0), (rows > 9).any()),
    "sums": lambda state, rows: (rows.sum(0) * 2 - rows.sum((0, 1)), (rows > 0).sum(0), rows.mean()),
    "sum over a product": lambda state, rows: (rows.sum((0, 1)) @ state, jnp.pad(rows.sum(0), 1)),
    "sums in one": lambda state, rows: jnp.concatenate([rows.sum(0), (rows * 2).sum(0)])[::-1],
    "replicated and sum": lambda state, rows: state.sum(1) - rows.sum((0, 1)) / jnp.exp(state[0, 0]),
    "merged": lambda state, rows: jnp.tanh((rows.reshape(60, 6) @ state).reshape(12, 20)).sum(0),
    "turned": lambda state, rows: (jnp.moveaxis(rows, 0, 2) * state[:5, :1, None]).sum(),
    "sorted": lambda state, rows: jnp.sort(rows, 1)[:, 1] + jnp.cumsum(rows, 2)[:, 0, ::-1],
    "split": lambda state, rows: jnp.stack(jnp.split(rows, 3, axis=2), 1).sum(0),
    "cut": lambda state, rows: (jax.lax.dynamic_slice_in_dim(rows, 2, 2, 1), rows.at[:, 1].set(0.5)),
    "columns": lambda state, rows: (rows[:, jnp.array([0, 3])], rows[..., jnp.array([2, 1, 1])].sum(0)),
    "along": lambda state, rows: jnp.take_along_axis(rows, rows.argmax(2)[..., None], 2),
    "table": lambda state, rows: state[(rows[:, 0] > 0).astype(int) * 3],
    "counts": lambda state, rows: jnp.zeros(6, int).at[(rows[:, 0] > 0).sum(1)].add(1),
    "each to another": lambda state, rows: state.at[(rows[:, 0] > 0).sum(1) % 6].add(rows[:, 1, :4]),
    "positions": lambda state, rows: rows * jnp.arange(12.0)[:, None, None] + jnp.arange(6.0),
    "a vector of rows": lambda state, rows: jnp.where(jnp.arange(12) < 7, rows.sum((1, 2)), 0.0).sum(),
    "products": lambda state, rows: jnp.einsum("bij,bik->bjk", rows, rows @ state).sum(0),
    "again": lambda state, rows: jax.grad(jax.checkpoint(lambda s: jnp.sin(rows @ s).sum()))(state),
    "loop": lambda state, rows: jax.lax.scan(
        lambda total, x: (total + x @ state, x.sum()), jnp.zeros((12, 4)), jnp.moveaxis(rows, 1, 0)
    ),
    "quotients of integers": lambda state, rows: (
        jax.lax.div((rows > 0).sum(dtype="uint32"), jnp.uint32(7)) + (rows > 1).sum(dtype="uint32")
    ),
    "branch": lambda state, rows: jax.lax.cond(rows.sum() > 0, jnp.sin, jnp.cos, rows.sum(0)),
}  # fmt: skip


WITHOUT_GRADIENTS = ("counts", "along", "branch", "quotients of integers")


@pytest.mark.samples(
    "largest",
    "counts",
    "along",
    "loop",
    "cut",
    "table",
    "each to another",
    "sums",
    "products",
    "sum over a product",
)
@pytest.mark.parametrize("name", WHOLE)
def test_operations_are_those_on_the_whole_batch(name):
    unequal = name in ("largest", *WITHOUT_GRADIENTS)  # the rules of others are those of gradients, too
    check_same(WHOLE[name], jnp.asarray(FLAT[:6, :4]), STEPS, unequal=unequal, rtol=1e-5, atol=1e-5)


@pytest.mark.samples(
    "loop",
    "merged",
    "sorted",
    "sum over a product",
    "table",
    "cut",
    "positions",
    "split",
    "replicated and sum",
)
@pytest.mark.parametrize("name", [name for name in WHOLE if name not in WITHOUT_GRADIENTS])
def test_gradients_are_those_of_the_whole_batch(name):
    def gradient(state, rows):
        def total(state, rows):
            leaves = jax.tree.leaves(WHOLE[name](state, rows))
            return sum(jnp.sum(jnp.sin(leaf)) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

        return jax.grad(total, (0, 1))(state, rows)

    check_same(gradient, jnp.asarray(FLAT[:6, :4]), STEPS, unequal=True, rtol=1e-4, atol=1e-4)


# Steps that no worker can compute from its rows.
REFUSED = {
    "sort": lambda state, rows: jnp.sort(rows, 0),
    "argmax": lambda state, rows: rows.argmax(0),
    "rev": lambda state, rows: rows[::-1],
    "cumsum": lambda state, rows: jnp.cumsum(rows, 0),
    "slice": lambda state, rows: rows[:6],
    "pad": lambda state, rows: jnp.pad(rows, ((1, 1), (0, 0), (0, 0))),
    "concatenate": lambda state, rows: jnp.concatenate([rows, rows]),
    "dot_general": lambda state, rows: rows[:, 0] @ rows[:, 0].T,
    "reshape": lambda state, rows: jnp.moveaxis(rows, 0, 1).reshape(60, 6),
    "gather": lambda state, rows: rows[(state[:, 0] > 0).astype(int)],
    "add": lambda state, rows: rows[:, 0, 0] + rows[:, :1, 0],
    "a loop over the batch": lambda state, rows: jax.lax.scan(lambda s, x: (s, x.sum()), state, rows),
    "in a loop": lambda state, rows: jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.sin(rows.sum()), 0.0),
    "cond": lambda state, rows: jax.lax.cond(state[0, 0] > 0, jnp.sin, jnp.cos, rows),
    "while": lambda state, rows: jax.lax.while_loop(lambda x: x.sum() < 0, lambda x: x + 1, rows),
    "fft": lambda state, rows: jnp.fft.fft(rows).real,
    "effects": lambda state, rows: jax.debug.print("{}", rows),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name):
    with pytest.raises(IndivisibleError, match=name):
        on_workers(REFUSED[name], jnp.asarray(FLAT[:6]), STEPS, 2)
