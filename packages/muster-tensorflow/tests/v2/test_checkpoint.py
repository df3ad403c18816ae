"""`tf.train.Checkpoint` in a training loop."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import CheckpointMismatchError, CheckpointNotFoundError
from muster._keras import keras


def built(units=2):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    return model, optimizer


def values(checkpointed):
    return [np.array(variable.value) for each in checkpointed for variable in each.variables]


def test_what_is_saved_is_restored(tmp_path):
    model, optimizer = built()
    step = keras.Variable(7, dtype="int32")
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    model.variables[0].assign_add(np.ones((3, 2)))
    assert checkpoint.step is step
    with pytest.raises(AttributeError, match="no 'net': it has model, optimizer, step"):
        _ = checkpoint.net
    path = checkpoint.save(tmp_path / "ckpt")
    assert path == str(tmp_path / "ckpt-1") == tf.train.latest_checkpoint(tmp_path)

    other, other_optimizer = built()
    other_step = keras.Variable(0, dtype="int32")
    again = tf.train.Checkpoint(model=other, optimizer=other_optimizer, step=other_step)
    again.restore(path).assert_existing_objects_matched()
    for one, two in zip(values([model, optimizer]), values([other, other_optimizer]), strict=True):
        np.testing.assert_array_equal(one, two)
    assert int(other_step) == 7
    assert again.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-2")


def test_without_a_checkpoint_nothing_changes(tmp_path):
    model, _ = built()
    before = values([model])
    tf.train.Checkpoint(model=model).restore(tf.train.latest_checkpoint(tmp_path)).expect_partial()
    np.testing.assert_array_equal(before[0], values([model])[0])


def test_a_manager_keeps_the_newest(tmp_path):
    model, _ = built()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), tmp_path, max_to_keep=2)
    assert manager.restore_or_initialize() is None
    for _ in range(3):
        path = manager.save()
    assert manager.checkpoints == [str(tmp_path / "ckpt-2"), path]
    assert manager.restore_or_initialize() == manager.latest_checkpoint == path


def test_other_objects_are_refused(tmp_path):
    model, optimizer = built()
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")
    with pytest.raises(
        CheckpointMismatchError, match=r"model/.*kernel is model/.*kernel there, of shape \(3, 2\)"
    ):
        tf.train.Checkpoint(model=built(5)[0]).restore(path)
    with pytest.raises(CheckpointMismatchError, match=r"variable step/.* is not there"):
        tf.train.Checkpoint(model=model, step=keras.Variable(0)).restore(path)
    with pytest.raises(CheckpointNotFoundError):
        tf.train.Checkpoint(model=model).restore(tmp_path / "ckpt-9")
    with pytest.raises(ValueError, match="takes variables"):
        tf.train.Checkpoint(step=3)


def test_objects_that_only_the_checkpoint_has_are_left_alone(tmp_path):
    model, optimizer = built()
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")
    other, _ = built()
    restored = tf.train.Checkpoint(model=other).restore(path).expect_partial()
    np.testing.assert_array_equal(values([model])[0], values([other])[0])
    with pytest.raises(AssertionError, match="has 6 variables that are not here, such as optimizer/"):
        restored.assert_consumed()


def test_a_key_of_a_dict_may_have_slashes(tmp_path):
    variable = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(vars={"scope/v": variable})
    path = checkpoint.save(str(tmp_path / "named"))
    variable.assign(3.0)
    checkpoint.restore(path)
    assert variable.numpy() == 1


def test_lists_dicts_and_checkpoints_are_saved_and_restored(tmp_path):
    def nested(start):
        one, two, three, four = (tf.Variable(float(start + number)) for number in range(4))
        checkpoint = tf.train.Checkpoint(inner=tf.train.Checkpoint(deep={"x": [one]}))
        checkpoint.listed = [two]
        checkpoint.listed.append(three)  # what a list holds counts when it is saved
        checkpoint.mapped = {"last": four}
        return checkpoint, [one, two, three, four]

    checkpoint, _ = nested(1)
    path = checkpoint.save(tmp_path / "ckpt")
    names = [name.partition("/")[0] for name, _ in tf.train.list_variables(path)]
    assert names == ["inner.deep.x.0", "listed.0", "listed.1", "mapped.last"]
    again, variables = nested(10)
    again.restore(path).assert_consumed()
    assert [float(each) for each in variables] == [1, 2, 3, 4]

    last = tf.Variable(0.0)
    tf.train.Checkpoint(mapped={"last": last}).restore(path).expect_partial()
    assert float(last) == 4


def test_a_root_has_no_name_of_its_own(tmp_path):
    model, _ = built()
    path = tf.train.Checkpoint(model).save(tmp_path / "ckpt")
    other, _ = built()
    tf.train.Checkpoint(root=other).restore(path).assert_consumed()
    np.testing.assert_array_equal(values([model])[0], values([other])[0])


def test_attributes_without_variables_are_kept_and_not_saved(tmp_path):
    class Counter(tf.train.Checkpoint):
        def __init__(self, step):
            super().__init__()
            self.step, self.names, self.count = step, ["a", "b"], tf.Variable(0.0)

        def up(self):
            self.count.assign_add(self.step)

    counter = Counter(3)
    counter.up()
    path = counter.save(tmp_path / "ckpt")
    assert [name.partition("/")[0] for name, _ in tf.train.list_variables(path)] == ["count"]
    other = Counter(2)
    other.restore(path).assert_consumed()
    assert (float(other.count), other.step, other.names) == (3.0, 2, ["a", "b"])
    other.step = tf.Variable(7.0)  # what it was is no longer there
    assert sorted(other.nested()) == ["count", "step"]
    other.count = None
    assert sorted(other.nested()) == ["step"]
    assert other.count is None


def test_what_cannot_be_saved_is_refused_where_it_is_given():
    with pytest.raises(ValueError, match=r"takes variables and what has some, got listed\.1=3"):
        tf.train.Checkpoint(listed=[tf.Variable(1.0), 3])
    checkpoint = tf.train.Checkpoint(a={"b": tf.Variable(1.0)})
    setattr(checkpoint, "a.b", tf.Variable(2.0))
    with pytest.raises(ValueError, match=r"two objects called 'a\.b'"):
        checkpoint.save("unused")


def test_a_random_generator_goes_on_where_it_was(tmp_path):
    generator = tf.random.Generator.from_seed(1)
    path = tf.train.Checkpoint(generator=generator).write(tmp_path / "random")
    drawn = np.asarray(generator.normal([3]))
    other = tf.random.Generator.from_seed(2)
    tf.train.Checkpoint(generator=other).read(path).assert_consumed()
    np.testing.assert_array_equal(other.normal([3]), drawn)


def test_the_only_optimizer_is_built_for_the_only_model(tmp_path):
    model, optimizer = built()
    optimizer.apply([np.ones_like(v.value) for v in model.trainable_variables], model.trainable_variables)
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")

    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        new = keras.optimizers.Adam()
    tf.train.Checkpoint(model=other, optimizer=new).restore(path).assert_consumed()
    for one, two in zip(values([model, optimizer]), values([other, new]), strict=True):
        np.testing.assert_array_equal(one, two)

    @tf.function
    def step():
        strategy.run(lambda: new.apply([v * 0 for v in other.trainable_variables], other.trainable_variables))

    step()  # its variables are the strategy's
    assert int(new.iterations) == 2


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(4), keras.layers.Dense(2)

    def call(self, x, training=False):
        return self.out(self.hidden(x))


@pytest.mark.parametrize(
    "make", [Subclassed, lambda: keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])]
)
def test_a_model_is_built_as_it_was_when_it_was_saved(tmp_path, make):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    dataset = tf.data.Dataset.from_tensor_slices(np.ones((12, 3), np.float32)).batch(6)

    def new():
        with strategy.scope():
            return make(), keras.optimizers.Adam(0.1)

    def train(model, optimizer):
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        for batch in strategy.experimental_distribute_dataset(dataset):
            tf.function(lambda x: strategy.run(step, (x,)))(batch)

    model, optimizer = new()
    train(model, optimizer)
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")

    other, other_optimizer = new()
    assert not other.built
    tf.train.Checkpoint(model=other, optimizer=other_optimizer).restore(path)
    for one, two in zip(values([model, optimizer]), values([other, other_optimizer]), strict=True):
        np.testing.assert_array_equal(one, two)
    train(model, optimizer)
    train(other, other_optimizer)  # its variables are the strategy's
    for one, two in zip(values([model, optimizer]), values([other, other_optimizer]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)

    alone = make()
    tf.train.Checkpoint(model=alone).restore(tf.train.Checkpoint(model=model).save(tmp_path / "ckpt"))
    np.testing.assert_allclose(alone(np.ones((2, 3))), model(np.ones((2, 3))), rtol=1e-6)


def test_an_optimizer_that_was_saved_before_it_was_built(tmp_path):
    model, new = built()[0], keras.optimizers.Adam()
    path = tf.train.Checkpoint(model=model, optimizer=new).save(tmp_path / "ckpt")
    tf.train.Checkpoint(model=model, optimizer=new).restore(path)
    assert not new.built


@pytest.mark.parametrize("by_function", [False, True])
def test_an_iterator_over_a_distributed_dataset_says_what_to_do(by_function):
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    data = tf.data.Dataset.range(8).batch(2)
    distributed = (
        strategy.distribute_datasets_from_function(lambda context: data)
        if by_function
        else strategy.experimental_distribute_dataset(data)
    )
    with pytest.raises(
        ValueError, match=r"cannot save the iterator 'it' over a distributed dataset.*\.skip\("
    ):
        tf.train.Checkpoint(it=iter(distributed))


def test_a_random_generator_draws_integers_of_all_sizes():
    drawn = tf.random.Generator.from_seed(1).uniform_full_int([1000], dtype=tf.int32).numpy()
    assert drawn.dtype == np.int32
    assert drawn.min() < -(2**30)
    assert drawn.max() > 2**30
    assert tf.random.Generator.from_seed(1).uniform_full_int([2], tf.uint8).dtype == np.uint8
