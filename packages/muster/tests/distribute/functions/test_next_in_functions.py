"""``next(iterator)`` inside of a function: each call takes the next batches."""

import gc
import weakref

import numpy as np
import pytest

from muster import GradientTape, keras
from muster._errors import OutOfRangeError, TraceError
from muster.data import Dataset
from muster.distribute import MirroredStrategy, OneDeviceStrategy, ReduceOp, function, get_strategy
from muster.program import run_functions_eagerly

STRATEGIES = {
    "default": get_strategy,
    "one device": lambda: OneDeviceStrategy("/cpu:1"),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def batches(strategy, rows, size):
    return iter(strategy.experimental_distribute_dataset(Dataset.range(rows).batch(size)))


class Summing:
    """Adds up what it is given, in steps."""

    def __init__(self, strategy):
        self.strategy = strategy
        with strategy.scope():
            self.total = keras.Variable(0, dtype="int32", aggregation="sum", trainable=False)
        self.traces = 0

    def add(self, x):
        self.total.assign_add(keras.ops.cast(keras.ops.sum(x), "int32"))

    def steps(self, count):
        @function
        def take(iterator):
            self.traces += 1
            for _ in range(count):
                self.strategy.run(self.add, args=(next(iterator),))

        return take


def test_each_call_takes_the_next_batch(strategy):
    summing = Summing(strategy)
    iterator, take = batches(strategy, 12, 4), summing.steps(1)
    for expected in (6, 28, 66):
        take(iterator)
        assert int(summing.total) == expected
    with pytest.raises(OutOfRangeError, match="no batch is left"):
        take(iterator)
    traces = summing.traces
    take(batches(strategy, 4, 4))  # another epoch
    assert (int(summing.total), summing.traces) == (72, traces)


def test_several_steps_in_one_call_and_what_is_left_stays(strategy):
    summing = Summing(strategy)
    iterator, take = batches(strategy, 20, 4), summing.steps(2)
    take(iterator)
    assert int(summing.total) == sum(range(8))
    take(iterator)
    with pytest.raises(StopIteration, match="more batches than the 1 that are left"):
        take(iterator)
    assert int(summing.total) == sum(range(16))  # nothing was done
    summing.steps(1)(iterator)
    assert int(summing.total) == sum(range(20))
    with pytest.raises(OutOfRangeError, match="the 1 that are left"):
        summing.steps(2)(batches(strategy, 4, 4))  # while it is recorded


def test_a_last_batch_of_another_size_is_traced_anew(strategy):
    summing = Summing(strategy)
    iterator, take = batches(strategy, 13, 4), summing.steps(1)
    for _ in range(4):
        take(iterator)
    assert int(summing.total) == sum(range(13))
    again = batches(strategy, 13, 4)
    traces = summing.traces
    for _ in range(4):
        take(again)
    assert (int(summing.total), summing.traces) == (2 * sum(range(13)), traces)


def test_two_iterators():
    strategy = STRATEGIES["mirrored 2"]()

    @function
    def step(ones, others):
        products = strategy.run(lambda x, y: keras.ops.sum(x * y), (next(ones), next(others)))
        return strategy.reduce("SUM", products)

    ones, others = batches(strategy, 8, 4), batches(strategy, 4, 4)
    assert int(step(ones, others)) == 0 + 1 + 4 + 9
    with pytest.raises(OutOfRangeError):
        step(ones, others)
    np.testing.assert_array_equal(np.concatenate(next(ones).values), [4, 5, 6, 7])  # it was given back


def test_what_would_be_the_same_batches_in_every_call_is_refused(strategy):
    iterator = batches(strategy, 8, 4)
    dataset = strategy.experimental_distribute_dataset(Dataset.range(8).batch(4))
    with pytest.raises(TraceError, match="same batches at every call.* Give the function the iterator"):
        function(lambda: next(iterator))()
    with pytest.raises(TraceError, match="A loop over a dataset in a traced function.* as an argument"):
        function(lambda: list(dataset))()
    with pytest.raises(TraceError, match="one program of all of its batches"):
        function(lambda iterator: list(iterator))(iterator)
    with pytest.raises(TypeError, match="takes only iterators of distributed datasets"):
        function(lambda iterator: next(iterator))(iter([1, 2]))
    assert next(iterator) is not None


@pytest.mark.parametrize("eager", [False, True], ids=["compiled", "eager"])
def test_a_function_of_a_dataset_is_an_epochs_loop(strategy, eager):
    if eager and strategy.num_replicas_in_sync > 1:
        pytest.skip("functions run eagerly with one replica only")
    traces = []

    def step(x):
        traces.append(x)
        total.assign_add(keras.ops.sum(x))
        return keras.ops.sum(x)

    with strategy.scope():
        total = keras.Variable(0.0, aggregation="sum", trainable=False)

    @function
    def epoch(dataset, scale, skip=None):
        sums, count = 0.0, 0
        for x in dataset:
            if count == skip:
                break
            sums += scale * strategy.reduce("SUM", strategy.run(step, args=(x,)))
            count += 1
        return sums / count

    dataset = Dataset.from_tensor_slices(np.arange(40.0, dtype=np.float32)).batch(8)
    distributed = strategy.experimental_distribute_dataset(dataset)
    run_functions_eagerly(eager)
    try:
        assert float(epoch(distributed, 2.0)) == 2 * 780 / 5
        compiled = len(traces)
        assert float(epoch(distributed, skip=2, scale=1.0)) == 120 / 2
    finally:
        run_functions_eagerly(False)
    assert eager or len(traces) == compiled  # each step of both epochs is the same program
    assert float(total) == 780 + 120


def test_the_guides_program():
    mirrored_strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    global_batch_size = 8

    with mirrored_strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        model.set_weights([np.zeros((1, 1), np.float32)])
        optimizer = keras.optimizers.SGD(learning_rate=0.1)

    dataset = Dataset.from_tensors(([1.0], [1.0])).repeat(1000).batch(global_batch_size)
    dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)

    loss_object = keras.losses.BinaryCrossentropy(from_logits=True, reduction=None)

    def train_step(inputs):
        features, labels = inputs

        with GradientTape() as tape:
            predictions = model(features, training=True)
            per_example_loss = loss_object(labels, predictions)
            loss = keras.ops.sum(per_example_loss) / global_batch_size
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905
        return loss

    @function
    def distributed_train_step(iterator):
        per_replica_losses = mirrored_strategy.run(train_step, args=(next(iterator),))
        return mirrored_strategy.reduce(ReduceOp.SUM, per_replica_losses, axis=None)

    iterator = iter(dist_dataset)
    losses = [float(distributed_train_step(iterator)) for _ in range(10)]
    weight, expected = 0.0, []
    for _ in range(10):
        expected.append(np.log1p(np.exp(-weight)))
        weight += 0.1 / (1 + np.exp(weight))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for _ in range(115):
        distributed_train_step(iterator)
    with pytest.raises(OutOfRangeError):
        distributed_train_step(iterator)
    assert int(optimizer.iterations) == 125


def test_what_is_read_is_no_part_of_the_program():
    """A map that JAX computes runs where it is drawn, not in the function that draws."""
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    dataset = Dataset.range(8).map(lambda x: keras.ops.cast(x, "float32") * 2).batch(4)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    total = function(lambda it: strategy.reduce("SUM", strategy.run(keras.ops.sum, (next(it),))))
    assert [float(total(iterator)), float(total(iterator))] == [12, 44]


def firsts(strategy, batches):
    """The first number of each batch: what it is of those of `batches`, whose size is 4."""
    return [int(np.asarray(strategy.experimental_local_results(each)[0])[0]) // 4 for each in batches]


def test_an_error_while_a_function_is_traced_costs_no_batch(strategy):
    iterator = batches(strategy, 12, 4)

    @function
    def take(iterator):
        next(iterator)
        next(iterator)
        raise RuntimeError("of the user")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="of the user"):
            take(iterator)
    assert iterator.steps_taken == 0
    assert firsts(strategy, iterator) == [0, 1, 2]


def test_batches_of_all_iterators_come_back_when_one_is_short(strategy):
    @function
    def take(ones, others):
        next(ones)
        next(others)
        return next(others)

    for _ in range(2):  # recorded, and with what another call has recorded
        ones, others = batches(strategy, 12, 4), batches(strategy, 4, 4)
        with pytest.raises(OutOfRangeError, match="than the 1 that are left"):
            take(ones, others)
        assert (firsts(strategy, ones), firsts(strategy, others)) == ([0, 1, 2], [0])
        take(batches(strategy, 12, 4), batches(strategy, 12, 4))


def test_that_a_batch_is_missing_is_the_callers_to_know(strategy):
    @function
    def take(iterator):
        return [batch for batch in (next(iterator, None), next(iterator, None)) if batch is not None]

    iterator = batches(strategy, 4, 4)
    with pytest.raises(OutOfRangeError, match="than the 1 that are left"):
        take(iterator)
    assert firsts(strategy, iterator) == [0]


def test_what_is_missing_in_a_function_that_runs_eagerly():
    strategy = get_strategy()

    @function
    def take(iterator):
        return [batch for batch in (next(iterator, None), next(iterator, None)) if batch is not None]

    @function
    def take_from_two(ones, others):
        return next(ones), next(others)

    run_functions_eagerly(True)
    try:
        iterator = batches(strategy, 12, 4)
        assert [firsts(strategy, take(iterator)) for _ in range(3)] == [[0, 1], [2], []]
        ones, others = batches(strategy, 4, 4), batches(strategy, 0, 4)
        with pytest.raises(OutOfRangeError):
            take_from_two(ones, others)
        assert firsts(strategy, ones) == [0]
    finally:
        run_functions_eagerly(False)


@pytest.mark.parametrize("eagerly", [False, True], ids=["traced", "eager"])
def test_one_iterator_as_two_arguments(eagerly):
    strategy = get_strategy()

    @function
    def take(ones, others):
        return next(ones), next(others), next(ones), next(others)

    run_functions_eagerly(eagerly)
    try:
        iterator = batches(strategy, 32, 4)
        assert firsts(strategy, take(iterator, iterator)) == [0, 1, 2, 3]
        assert firsts(strategy, take(iterator, iterator)) == [4, 5, 6, 7]
        assert firsts(strategy, take(batches(strategy, 8, 4), batches(strategy, 8, 4))) == [0, 0, 1, 1]
    finally:
        run_functions_eagerly(False)


def test_iterators_that_end_together(strategy):
    traces = []

    @function
    def take(ones, others):
        traces.append(ones)
        taken = []
        for _ in range(2):
            if not (one := ones.get_next_as_optional()).has_value():
                break
            taken += [one.get_value(), next(others)]
        return taken

    for _ in range(3):
        ones, others = batches(strategy, 12, 4), batches(strategy, 12, 4)
        taken = [firsts(strategy, take(ones, others)) for _ in range(3)]
        assert taken == [[0, 0, 1, 1], [2, 2], []]
    assert len({id(each) for each in traces}) == 3  # of two steps, of one and of none


def test_how_much_is_taken_may_depend_on_what_was_drawn():
    traces = []

    @function
    def take(iterator):
        traces.append(iterator)
        first = next(iterator)
        return [first, next(iterator)] if len(first) == 4 else [first]

    for _ in range(2):
        iterator = batches(get_strategy(), 19, 4)
        taken = [len(take(iterator)) for _ in range(3)]
        assert taken == [2, 2, 1]
    assert len({id(each) for each in traces}) == 2


def test_a_function_that_is_not_the_same_when_it_is_compiled_is_refused():
    asked = []

    @function
    def take(iterator):
        asked.append(iterator)
        return [next(iterator) for _ in asked]

    iterator = batches(get_strategy(), 12, 4)
    with pytest.raises(TraceError, match="takes more batches this time than the 1"):
        take(iterator)
    assert iterator.steps_taken == 0


def test_a_function_keeps_no_iterator():
    iterator = batches(get_strategy(), 8, 4)
    take = function(lambda iterator: next(iterator))
    take(iterator)
    kept = weakref.ref(iterator)
    del iterator
    gc.collect()
    assert kept() is None
