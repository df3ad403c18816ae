"""What strategies do with input: datasets, functions of datasets, iterators, and values of one's own."""

import numpy as np

import muster_tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
mirrored_strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

global_batch_size = 16
dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size)
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)


@tf.function
def train_step(inputs):
    features, labels = inputs
    return labels - 0.3 * features


seen = 0
for x in dist_dataset:
    per_replica = mirrored_strategy.run(train_step, args=(x,))
    assert len(mirrored_strategy.experimental_local_results(per_replica)) == 2
    seen += 1
assert seen == 7
total = mirrored_strategy.reduce(
    "SUM", mirrored_strategy.run(train_step, args=(next(iter(dist_dataset)),)), 0
)
np.testing.assert_allclose(np.asarray(total), [0.7 * 16], rtol=1e-5)

# Dividing a batch anew: each replica takes half of it.
sizes = tf.data.Dataset.range(12).batch(6)
found = [
    [np.asarray(each).tolist() for each in mirrored_strategy.experimental_local_results(batch)]
    for batch in mirrored_strategy.experimental_distribute_dataset(sizes)
]
assert found == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]], found


def dataset_fn(input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(64).batch(16)
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    dataset = dataset.unbatch().batch(batch_size)
    return dataset.prefetch(2)


dist_dataset = mirrored_strategy.distribute_datasets_from_function(dataset_fn)
iterator = iter(dist_dataset)
for _ in range(4):
    features, labels = next(iterator)
    assert [each.shape for each in mirrored_strategy.experimental_local_results(features)] == [(8, 1)] * 2
try:
    next(iterator)
    raise AssertionError("there is no fifth batch")
except (StopIteration, tf.errors.OutOfRangeError):
    pass


# Optional batches inside of a function.
@tf.function
def step_fn(x):
    return x


@tf.function
def train_fn(distributed_iterator):
    optional_data = distributed_iterator.get_next_as_optional()
    return optional_data.has_value()


iterator = iter(mirrored_strategy.experimental_distribute_dataset(tf.data.Dataset.range(3).batch(2)))
assert [bool(train_fn(iterator)) for _ in range(3)] == [True, True, False]

# Values of one's own for each replica.
result_list = []


def value_fn(ctx):
    return tf.constant(float(ctx.replica_id_in_sync_group))


distributed_values = mirrored_strategy.experimental_distribute_values_from_function(value_fn)
for _ in range(4):
    result = mirrored_strategy.run(lambda x: x + 1.0, args=(distributed_values,))
    result_list.append(result)
assert [
    [float(each) for each in mirrored_strategy.experimental_local_results(result)] for result in result_list
] == [[1.0, 2.0]] * 4


# From a generator, by its specification.
def input_gen():
    while True:
        yield np.random.default_rng(0).random(4, dtype=np.float32)


element_spec = tf.TensorSpec(shape=(4,), dtype=tf.float32)
generated = tf.data.Dataset.from_generator(input_gen, output_signature=element_spec).batch(4)
distributed_iterator = iter(mirrored_strategy.experimental_distribute_dataset(generated))
print(distributed_iterator.element_spec)
gathered = mirrored_strategy.gather(next(distributed_iterator), axis=0)
assert gathered.shape == (4, 4)
sharded = tf.data.Options()
sharded.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
assert len(list(mirrored_strategy.experimental_distribute_dataset(sizes.with_options(sharded)))) == 2
print("ok")
