"""Replicas send the rows of a table's gradient, if they are less, and compute what whole gradients give."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from linked import together
from muster import optimizers
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, Strategy
from muster.distribute.engine import _mesh
from muster.distribute.engine._exchange import ExchangeEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._split import Split
from muster.distribute.engine._traced import BatchGroup
from muster.distribute.strategies._central_storage import CentralStorageStrategy
from muster.distribute.strategies._programs import compile_program, start_program
from muster.program.passes import _rows, _table_updates
from muster.program.trace._program import Program

ROWS, UNITS, BATCH, STEPS = 2048, 4, 12, 4
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((ROWS, UNITS)).astype(np.float32)
IDS = RNG.integers(0, ROWS, (STEPS * BATCH, 2)).astype(np.int32)
IDS[:, 1] %= 5  # several examples of a replica, and several replicas, look up the same rows
LABELS = RNG.standard_normal((STEPS * BATCH, 1)).astype(np.float32)
FEWER = ROWS * UNITS // 4
OPTIMIZERS = {
    "Adagrad": lambda **options: keras.optimizers.Adagrad(0.1, **options),
    "Adam": lambda **options: keras.optimizers.Adam(0.1, **options),
    "SGD": lambda **options: keras.optimizers.SGD(0.1, **options),
    "TensorFlow's Adagrad": lambda **options: optimizers.Adagrad(0.1, **options),
    "momentum of rows": lambda **options: optimizers.SGD(0.1, momentum=0.9, **options),
}
OPTIONS = {
    "plain": {},
    "uneven": {},
    "in groups": {},
    "accumulated": {"gradient_accumulation_steps": 2},
    "clipped": {"global_clipnorm": 0.01},
}


def parts(how):
    """The ids and labels of each step."""
    size = BATCH - 1 if how == "uneven" else BATCH
    starts = range(0, STEPS * BATCH, BATCH)
    return [(IDS[start : start + size], LABELS[start : start + size]) for start in starts]


def by_program(strategy, make, how):
    """Train as an Estimator does."""

    def step(batch):
        ids, labels = batch
        table = keras.Variable(TABLE, name="table")
        kernel = keras.Variable(np.ones((UNITS, 1), np.float32), name="kernel")
        outputs = jnp.sin(keras.ops.take(table, ids, axis=0)).mean(1) @ kernel
        loss = jnp.mean((outputs - labels) ** 2)
        muster.minimize(make(**OPTIONS[how]), loss)
        return {"loss": loss}, None

    batches = parts(how)
    program = Program(step, batches[0])
    run = compile_program(strategy, program, {})
    state = start_program(strategy, program.initial).peek()
    split = Split(strategy.workers.share_of(strategy.local_replicas))
    batches = [split.worker_batch(batch) if how == "uneven" else own(split, batch) for batch in batches]
    if how == "in groups":
        batches = [BatchGroup(batches[:2]), BatchGroup(batches[2:])]
    for batch in batches:
        state, _ = run(state, (), batch)
    return list(state.values())


def own(split, batch):
    """A worker's rows of a batch that all share equally."""
    return jax.tree.map(lambda rows: rows[split.rows(len(rows))], batch)


def model():
    ids = keras.Input((2,), dtype="int32")
    embeddings = keras.layers.Embedding(ROWS, UNITS, embeddings_initializer=lambda *_, **__: jnp.array(TABLE))
    rows = keras.layers.GlobalAveragePooling1D()(keras.ops.sin(embeddings(ids)))
    return keras.Model(ids, keras.layers.Dense(1, kernel_initializer="ones")(rows))


def by_fit(strategy, make, how):
    with strategy.scope():
        trained = model()
        trained.compile(make(**OPTIONS[how]), "mse", steps_per_execution=2 if how == "in groups" else 1)
    ids, labels = map(np.concatenate, zip(*parts(how), strict=True))
    size = len(parts(how)[0][0])
    trained.fit(ids, labels, batch_size=size, shuffle=False, verbose=0)
    return [v.value for v in (*trained.variables, *trained.optimizer.variables)]


def by_loop(strategy, make, how):
    with strategy.scope():
        trained, optimizer = model(), make(**OPTIONS[how])
        optimizer.build(trained.trainable_variables)
    size = len(parts(how)[0][0])

    def on_replica(ids, labels):
        with muster.GradientTape() as tape:
            loss = keras.ops.sum((trained(ids) - labels) ** 2) / size
        gradients = tape.gradient(loss, trained.trainable_variables)
        optimizer.apply_gradients(zip(gradients, trained.trainable_variables, strict=True))

    @muster.function
    def steps(*batches):
        for batch in batches:
            strategy.run(on_replica, batch)

    data = Dataset.from_tensor_slices(tuple(map(np.concatenate, zip(*parts(how), strict=True))))
    batches = list(strategy.experimental_distribute_dataset(data.batch(size)))
    count = 2 if how == "in groups" else 1
    for start in range(0, STEPS, count):
        steps(*batches[start : start + count])
    return [v.value for v in (*trained.variables, *optimizer.variables)]


WAYS = {"Estimator": by_program, "fit": by_fit, "loop": by_loop}


@pytest.fixture
def sent(monkeypatch):
    """The sizes of all that devices of a process send each other, as compiled."""
    sizes, compiled = [], _mesh.compiled

    def spy(function, args, executables, *more):
        run = compiled(function, args, {}, *more)
        for shapes in re.findall(r"= (.*?) all-(?:reduce|gather)(?:-start)?\(", run.as_text()):
            counts = [re.findall(r"\d+", shape) for shape in re.findall(r"\w+\[([\d,]*)\]", shapes)]
            sizes.append(sum(int(np.prod(list(map(int, count)))) for count in counts))
        return run

    monkeypatch.setattr(_mesh, "compiled", spy)
    return sizes


def whole(monkeypatch):
    """Let all gradients be whole from now on."""
    monkeypatch.setattr(_rows.Rows, "takes", lambda rows, count: None)
    monkeypatch.setattr(_table_updates, "_FEWEST_ROWS", ROWS + 1)


def require_equal(ours, whole, how):
    for one, other in zip(ours, whole, strict=True):
        if how == "clipped":  # the norm adds up other zeros
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


def devices(count):
    return [f"/cpu:{device}" for device in range(count)]


CASES = [
    ("Estimator", "Adagrad", "plain"),
    ("Estimator", "SGD", "uneven"),
    ("Estimator", "TensorFlow's Adagrad", "uneven"),
    ("Estimator", "Adam", "in groups"),
    ("Estimator", "Adam", "accumulated"),
    ("Estimator", "Adagrad", "clipped"),
    ("fit", "Adam", "plain"),
    ("fit", "Adagrad", "uneven"),
    ("fit", "momentum of rows", "in groups"),
    ("fit", "Adagrad", "accumulated"),
    ("fit", "TensorFlow's Adagrad", "clipped"),
    ("loop", "momentum of rows", "plain"),
    ("loop", "SGD", "plain"),
    ("loop", "Adam", "uneven"),
    ("loop", "Adagrad", "in groups"),
    ("loop", "Adagrad", "accumulated"),
    ("loop", "Adam", "clipped"),
]


@pytest.mark.samples("Estimator-TensorFlow's Adagrad-uneven", "fit-Adagrad-uneven", "loop-Adam-uneven")
@pytest.mark.parametrize(("way", "optimizer", "how"), CASES)
def test_devices_send_rows(way, optimizer, how, sent, monkeypatch):
    def trained():
        sent.clear()
        return WAYS[way](MirroredStrategy(devices(3)), OPTIMIZERS[optimizer], how)

    ours = trained()
    assert 0 < max(sent) < FEWER
    whole(monkeypatch)
    theirs = trained()
    assert max(sent) >= ROWS * UNITS
    require_equal(ours, theirs, how)


@pytest.mark.parametrize("way", WAYS)
def test_central_storage_sends_rows(way, sent, monkeypatch):
    def trained():
        sent.clear()
        return WAYS[way](CentralStorageStrategy(devices(2)), OPTIMIZERS["Adagrad"], "uneven")

    ours = trained()
    assert 0 < max(sent) < FEWER
    whole(monkeypatch)
    require_equal(ours, trained(), "uneven")


@pytest.mark.samples("fit-Adam-uneven", "Estimator-Adagrad-uneven")
@pytest.mark.parametrize(
    ("way", "optimizer", "how"),
    [
        ("Estimator", "Adagrad", "uneven"),
        ("Estimator", "momentum of rows", "plain"),
        ("fit", "Adam", "uneven"),
        ("fit", "momentum of rows", "plain"),
        ("fit", "Adagrad", "clipped"),
        ("loop", "Adagrad", "uneven"),
    ],
)
def test_workers_send_rows(way, optimizer, how, monkeypatch):
    def trained():
        sizes = []

        def work(link):
            reduce = link.all_reduce
            link.all_reduce = lambda arrays: [sizes.extend(a.size for a in arrays), reduce(arrays)][1]
            device = jax.sharding.SingleDeviceSharding(jax.devices()[link.rank])
            strategy = Strategy(Placement(device, workers=link), ExchangeEngine(None, link), link)
            return list(map(np.asarray, WAYS[way](strategy, OPTIMIZERS[optimizer], how)))

        return together(3, work), sizes

    (ours, *others), sizes = trained()
    assert 0 < max(sizes) < FEWER
    for other in others:
        require_equal(other, ours, how)
    whole(monkeypatch)
    (theirs, *_), sizes = trained()
    assert max(sizes) >= ROWS * UNITS
    require_equal(ours, theirs, how)


def test_it_is_said_what_is_sent(caplog):
    caplog.set_level("DEBUG", "muster.program.passes._rows")
    by_program(MirroredStrategy(devices(2)), OPTIMIZERS["Adagrad"], "plain")
    said = "The gradient of a table of shape [2048, 4] is sent by rows: 120 numbers rather than 8,192."
    assert said in caplog.messages
