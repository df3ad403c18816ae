"""The conformance suite's custom loops, and what they are compared with: the same by hand, without muster."""

import jax
import numpy as np
from conformance import BATCH, EPOCHS, ROWS, WEIGHTS, X, Y, built

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import ReduceOp, get_replica_context


def batches_of(data, epoch):
    """The batches of an epoch: rows, labels and weights."""
    weights = WEIGHTS if data == "weighted" else np.ones(ROWS, np.float32)
    dataset = Dataset.from_tensor_slices((X, Y, weights))
    return (dataset.shuffle(ROWS, seed=epoch) if data == "shuffled" else dataset).batch(BATCH)


def distributed(strategy, data, epoch):
    if data != "from function":
        return strategy.experimental_distribute_dataset(batches_of(data, epoch))

    def own(context):
        batches = batches_of(data, epoch).unbatch().batch(context.get_per_replica_batch_size(BATCH))
        return batches.shard(context.num_input_pipelines, context.input_pipeline_id)

    return strategy.distribute_datasets_from_function(own)


def looped(strategy, case):
    """Train in a loop of the guide's form, or of the native one, and say all that came of it, as JSON."""
    with strategy.scope():
        model, optimizer = built(case)
        model(X[:1])  # builds it
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        counted = {"dtype": "int32", "aggregation": "sum", "synchronization": "on_read", "trainable": False}
        seen = keras.Variable(0, **counted)
        classes = keras.Variable(np.zeros(3), dtype="int32", aggregation="sum", trainable=False)

    def forward(x, y, weights):
        logits = model(x, training=True)
        accuracy.update_state(y, logits, weights)
        seen.assign_add(len(x))
        classes.assign_add(keras.ops.sum(keras.ops.one_hot(y, 3, dtype="int32"), axis=0))
        return keras.ops.sum(loss_of(y, logits) * weights) / BATCH

    def guides_step(batch):
        with muster.GradientTape() as tape:
            loss = forward(*batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        summed = case.data == "weighted"  # by the program, rather than by the optimizer
        if summed:
            gradients = get_replica_context().all_reduce("sum", gradients)
        pairs = zip(gradients, model.trainable_variables, strict=True)
        optimizer.apply_gradients(pairs, skip_gradients_aggregation=summed)
        return loss

    def native_step(batch):
        loss, gradients = muster.value_and_grad(forward, model.trainable_variables)(*batch)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    @muster.function
    def of_batch(batch):
        return strategy.reduce(ReduceOp.SUM, strategy.run(guides_step, args=(batch,)), axis=None)

    @muster.function
    def of_iterator(iterator):
        return strategy.reduce("SUM", strategy.run(native_step, (next(iterator),)))

    def losses_of(dataset):
        if case.way == "tape":
            return [float(of_batch(batch)) for batch in dataset]
        iterator, losses = iter(dataset), []
        try:
            while True:
                losses.append(float(of_iterator(iterator)))
        except StopIteration:
            return losses

    @muster.function
    def evaluate(batch):
        def on_replica(x, y, weights):
            logits = model(x, training=False)
            accuracy.update_state(y, logits, weights)
            return logits

        return strategy.gather(strategy.run(on_replica, batch), axis=0)

    def accuracy_so_far():
        value = float(accuracy.result())
        accuracy.reset_state()
        return value

    seeds = [each for each in model.variables if "seed" in each.path]
    own_seeds = [strategy.gather(strategy.run(lambda s=seed: s.value[None]), axis=0) for seed in seeds]
    losses, accuracies = [], []
    for epoch in range(EPOCHS):
        losses += losses_of(distributed(strategy, case.data, epoch))
        accuracies.append(accuracy_so_far())
    rows = strategy.experimental_distribute_dataset(batches_of("weighted", 0))
    predicted = np.concatenate([evaluate(batch) for batch in rows])
    return {
        "losses": losses,
        "history": {"accuracy": accuracies},
        "evaluated": {"accuracy": accuracy_so_far()},
        "predicted": predicted.tolist(),
        "weights": [np.asarray(each.value).tolist() for each in [*model.variables, *optimizer.variables]],
        "seen": [int(each) for each in strategy.experimental_local_results(seen)],
        "classes": np.asarray(classes.value).tolist(),
        "seeds": [np.asarray(each).tolist() for each in own_seeds],
    }


def split_at_all_reduces(batch, replicas):
    """What each replica gets of a batch: nearly equal parts; of fewer rows, the first one counts for all."""
    if len(batch[0]) < replicas:
        return [batch]
    return list(zip(*(np.array_split(each, replicas) for each in batch), strict=True))


def by_hand(case, replicas, seeds):
    """What a loop is to come to, by Keras and JAX alone, on one device.

    Args:
        case: the case.
        replicas: into how many parts a batch is divided if the model has more than weights. Each part has
            statistics of batch normalization of its own, of which the mean by rows is kept, and masks of its
            own.
        seeds: of each seed generator of the model, those that the replicas draw masks from at the start.
    """
    model, optimizer = built(case)
    model(X[:1])  # builds it
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    @jax.jit
    def on_part(trainable, others, x, y, weights):
        def loss(trainable):
            logits, after = model.stateless_call(trainable, others, x, training=True)
            return keras.ops.sum(loss_of(y, logits) * weights) / BATCH, (logits, after)

        return jax.value_and_grad(loss, has_aux=True)(trainable)

    @jax.jit
    def update(state, gradients, trainable):
        return optimizer.stateless_apply(state, gradients, trainable)

    trainable, others, state = (
        [np.asarray(each.value) for each in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    )
    paths = [each.path for each in model.non_trainable_variables]
    drawn = iter(np.array(seeds, np.uint32))
    # What is to be added to a variable to make it each replica's own: nothing, but for seeds.
    own = [(each := next(drawn)) - each[0] if "seed" in path else [0] * replicas for path in paths]
    losses, accuracies, seen = [], [], [0] * replicas
    for epoch in range(EPOCHS):
        right = total = 0.0
        for batch in batches_of(case.data, epoch):
            parts = split_at_all_reduces(batch, replicas)
            for replica, part in enumerate(parts):
                seen[replica] += len(part[0])
            found = []
            for replica, (x, y, weights) in enumerate(parts if others else [batch]):
                before = [value + plus[replica] for value, plus in zip(others, own, strict=True)]
                (loss, (logits, after)), gradients = on_part(trainable, before, x, y, weights)
                after = [np.asarray(value) - plus[replica] for value, plus in zip(after, own, strict=True)]
                found.append((float(loss), after, gradients, len(x)))
                right, total = right + weights @ (np.argmax(logits, 1) == y), total + weights.sum()
            part_losses, afters, gradients, rows = zip(*found, strict=True)
            losses.append(sum(part_losses))
            others = [
                values[0] if "seed" in path else np.average(values, 0, rows)
                for path, values in zip(paths, zip(*afters, strict=True), strict=True)
            ]
            gradients = [sum(parts) for parts in zip(*gradients, strict=True)]
            trainable, state = update(state, gradients, trainable)
        accuracies.append(right / total)
    for variables, values in (
        (model.trainable_variables, trainable),
        (model.non_trainable_variables, others),
        (optimizer.variables, state),
    ):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
    predicted = np.asarray(model(X, training=False))
    return {
        "losses": losses,
        "history": {"accuracy": accuracies},
        "evaluated": {"accuracy": WEIGHTS @ (predicted.argmax(1) == Y) / WEIGHTS.sum()},
        "predicted": predicted,
        "weights": [np.asarray(each.value) for each in [*model.variables, *optimizer.variables]],
        "seen": seen,
    }
