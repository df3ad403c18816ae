"""``tf.saved_model.save`` and ``load`` of a ``tf.Module``."""

import threading

import numpy as np
import pytest

import muster
import muster_tensorflow as tf
from muster import SavedModelError


class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.v = tf.Variable(1.0, name="scale")
        self.fixed = tf.Variable([2, 3], trainable=False)
        self.lost = "text"

    @tf.function
    def __call__(self, x, twice=False):
        return x * self.v * (2 if twice else 1)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def mutate(self, new):
        self.v.assign(new)

    @tf.function(input_signature=[{"a": tf.TensorSpec([None, 2]), "b": tf.TensorSpec([2], tf.int32)}])
    def structured(self, given):
        return {"sum": tf.reduce_sum(given["a"]), "rest": [given["b"] + self.fixed, self.v, None]}


def saved(module, path, **options):
    tf.saved_model.save(module, path, **options)
    return tf.saved_model.load(path)


def test_functions_and_variables_are_loaded(tmp_path):
    module = Scale()
    module(tf.constant(0.0))
    module(tf.constant([0.0, 0.0]), twice=True)
    loaded = saved(module, tmp_path / "scale")
    assert loaded.signatures == {}
    assert [each.name for each in loaded.trainable_variables] == ["scale:0"]
    assert loaded.fixed.numpy().tolist() == [2, 3]
    assert not hasattr(loaded, "lost")

    assert float(loaded(tf.constant(3.0))) == float(loaded(3.0)) == 3
    loaded.mutate(tf.constant(2.0))
    assert float(loaded.v) == 2
    assert float(loaded(x=tf.constant(3.0))) == 6
    assert loaded(tf.constant([3.0, 4.0]), True).numpy().tolist() == [12, 16]
    assert float(module.v) == 1
    outputs = loaded.structured({"a": tf.ones([5, 2]), "b": tf.constant([1, 1])})
    assert float(outputs["sum"]) == 10
    assert outputs["rest"][0].numpy().tolist() == [3, 4]
    assert float(outputs["rest"][1]) == 2
    assert outputs["rest"][2] is None


def test_a_function_is_saved_for_the_arguments_that_a_signature_calls_it_with(tmp_path):
    module = Scale()

    @tf.function
    def serving_default(x):
        return {"output": module(x, twice=True)}

    signature = serving_default.get_concrete_function(tf.TensorSpec([None], tf.float32))
    loaded = saved(module, tmp_path / "scale", signatures=signature)
    assert loaded.signatures["serving_default"](tf.constant([1.0]))["output"].numpy().tolist() == [2]
    assert loaded([3.0, 4.0], twice=True).numpy().tolist() == [6, 8]
    with pytest.raises(ValueError, match="Could not find a matching function"):
        loaded(tf.constant([1.0]))


def test_other_arguments_than_saved_ones_are_refused(tmp_path):
    module = Scale()
    module(tf.constant(0.0))
    loaded = saved(module, tmp_path / "scale")
    for args in ((tf.constant([3.0]),), (tf.constant(3),), (tf.constant(3.0), True)):
        with pytest.raises(ValueError, match="Could not find a matching function: __call__ was saved for"):
            loaded(*args)
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        loaded(1.0, y=1.0)
    with pytest.raises(
        TypeError, match=r"its __call__ was no tf\.function, or one without an input_signature"
    ):
        saved(Scale(), tmp_path / "not called")(1.0)


def test_what_was_loaded_trains_on(tmp_path):
    module = Scale()
    module(tf.constant(0.0))
    loaded = saved(module, tmp_path / "scale")
    optimizer = tf.keras.optimizers.SGD(0.05)

    def step():
        with tf.GradientTape() as tape:
            loss = (10.0 - loaded(tf.constant(2.0))) ** 2
        variables = loaded.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = [float(step()) for _ in range(3)]
    compiled = tf.function(step)
    losses += [float(compiled()) for _ in range(8)]
    assert losses[0] == 64
    assert losses == sorted(losses, reverse=True)
    assert float(loaded.v) == pytest.approx(5, abs=0.02)
    again = saved(module, tmp_path / "scale")  # over the first one
    assert float(again.v) == 1


@tf.custom_gradient
def clipped(y):
    return y, lambda dy: tf.clip_by_norm(dy, 0.5)


def test_an_array_of_any_rank_and_gradients_of_ones_own(tmp_path):
    class Clip(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec(None)])
        def clip(self, x):
            return clipped(x)

    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    loaded = saved(Clip(), tmp_path / "clip", options=options)
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        output = loaded.clip(v * v)
    assert float(output) == 4
    assert float(tape.gradient(output, v)) == 2
    assert loaded.clip(tf.ones([2, 3, 1])).shape == (2, 3, 1)


def test_modules_layers_and_functions_in_it(tmp_path):
    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.layers = [tf.keras.layers.Dense(3), tf.keras.layers.Dense(2)]
            self.parts = {"scale": Scale()}
            self.same = self.parts["scale"]
            self.generator = tf.random.Generator.from_seed(7)

        @tf.function(input_signature=[tf.TensorSpec([None, 4])])
        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.inner(x) * self.same.v

        @tf.function
        def inner(self, x):
            return tf.nn.relu(x)

        @tf.function(input_signature=[])
        def draw(self):
            return self.generator.normal([2])

    module = Network()
    x = tf.random.normal([5, 4])
    module.same.v.assign(3.0)
    expected = module(x)
    loaded = saved(module, tmp_path / "network")
    np.testing.assert_allclose(loaded(x), expected, rtol=1e-5)
    assert len(loaded.trainable_variables) == 5
    assert loaded.same is loaded.parts["scale"]
    loaded.same.mutate(6.0)
    np.testing.assert_allclose(loaded(x), 2 * expected, rtol=1e-5)
    draws = [np.asarray(each.draw()) for each in (module, module, loaded, loaded)]
    np.testing.assert_array_equal(draws[:2], draws[2:])
    assert (draws[0] != draws[1]).all()


def test_signatures_are_for_all_loaders(tmp_path):
    module = Scale()
    call = module.__call__.get_concrete_function(tf.TensorSpec([None], tf.float32))
    loaded = saved(module, tmp_path / "scale", signatures=call)
    serve = loaded.signatures["serving_default"]
    assert serve.structured_outputs == {"output_0": tf.TensorSpec([None], tf.float32, "output_0")}
    assert serve.structured_input_signature == ((), {"x": tf.TensorSpec([None], tf.float32, "x")})
    alone = muster.saved_model.load(tmp_path / "scale").signatures["serving_default"]
    np.testing.assert_array_equal(alone(x=[1.0, 2.0])["output_0"], [1, 2])


def test_a_signature_branches_and_loops_on_tensors(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([], tf.bool)])
    def grown(x, noisy):
        rounds = tf.constant(0)
        while tf.reduce_sum(x) < 10.0:
            x = x * 2.0
            rounds = rounds + 1
        if noisy:
            x = x + tf.random.uniform([])
        return {"x": x, "rounds": rounds}

    serve = saved(tf.Module(), tmp_path / "grown", signatures=grown).signatures["serving_default"]
    found = serve(tf.constant([1.0, 2.0]), tf.constant(False))
    assert (found["x"].numpy().tolist(), int(found["rounds"])) == ([4.0, 8.0], 2)
    found = serve(x=tf.constant([20.0]), noisy=tf.constant(True))
    assert 20.0 < float(found["x"][0]) < 21.0
    assert int(found["rounds"]) == 0


def test_loaded_functions_have_concrete_functions(tmp_path):
    module = Scale()
    module(tf.constant([1.0, 2.0]))
    loaded = saved(module, tmp_path / "scale")
    call = loaded.__call__.get_concrete_function(x=tf.TensorSpec([2]))
    assert call(tf.constant([3.0, 4.0])).numpy().tolist() == [3, 4]
    assert call.structured_outputs == tf.TensorSpec([2], tf.float32)
    structured = loaded.structured.get_concrete_function({"a": tf.ones([5, 2]), "b": tf.constant([1, 1])})
    assert float(structured({"a": tf.ones([5, 2]), "b": tf.constant([1, 1])})["sum"]) == 10
    with pytest.raises(ValueError, match="Could not find a matching function"):
        loaded.__call__.get_concrete_function(tf.TensorSpec([3]))(tf.ones(3))


def test_a_function_that_takes_only_some_sizes_is_kept_as_python_code(tmp_path, caplog):
    class Shift(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, None])])
        def __call__(self, x):
            return x + tf.range(3.0)

    loaded = saved(Shift(), tmp_path / "shift")
    assert "__call__ cannot be compiled" in caplog.text
    assert "such as tf.TensorSpec([None, 30" in caplog.text
    assert loaded(tf.ones([1, 3])).numpy().tolist() == [[1, 2, 3]]


class Linear(tf.Module):
    """Takes examples of seven features, as its weights say, and not its input_signature."""

    def __init__(self):
        super().__init__()
        self.mean = tf.Variable(tf.range(9, dtype=tf.float32))
        self.w = tf.Variable(tf.ones([9, 1]))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def __call__(self, x):
        extended = tf.concat([x, tf.one_hot(tf.cast(x[:, -1], tf.int32), 2)], axis=1)
        return (extended - self.mean) @ self.w


def test_a_size_that_can_be_but_one_is_found(tmp_path):
    module = Linear()
    loaded = saved(module, tmp_path / "linear")
    for rows in (1, 3):
        x = tf.ones([rows, 7])
        np.testing.assert_array_equal(loaded(x), module(x))
    with pytest.raises(ValueError, match="Could not find a matching function"):
        loaded(tf.ones([3, 8]))


def test_functions_that_branch_on_values_are_kept_as_python_code(tmp_path, caplog):
    class Branches(tf.Module):
        def __init__(self):
            self.scale = tf.Variable(tf.ones(5))

        @tf.function(input_signature=[tf.TensorSpec((1, None), tf.float32)])
        def signed(self, x):
            return x if tf.reduce_sum(x + tf.ones((1, 3)) * self.scale[:3]) > 0 else -x

        @tf.function
        def positive(self, x):
            return x if tf.reduce_sum(x) > 0 else -x

    module = Branches()
    module.positive(tf.constant([-1.0]))
    loaded = saved(module, tmp_path / "signed")
    assert (
        "Branches are kept as Python code, which tf.saved_model.load alone runs: positive, signed"
        in caplog.text
    )
    assert "Python needs a value in `return x if tf.reduce_sum(x + " in caplog.text
    assert loaded.positive(tf.constant([-1.0])).numpy().tolist() == [1]
    x = -tf.ones((1, 3))
    assert loaded.signed(2 * x).numpy().tolist() == [[2, 2, 2]]
    loaded.scale.assign(3 * tf.ones(5))  # one variable for what was compiled and what was not
    assert loaded.signed(2 * x).numpy().tolist() == [[-2, -2, -2]]


class Reader(tf.keras.Model):
    """Knows words, and has layers in layers; it has no config."""

    def __init__(self, vocabulary):
        super().__init__()
        self.numbers = tf.keras.layers.StringLookup(vocabulary=vocabulary)
        self.layers_of_words = [tf.keras.layers.Embedding(4, 3), tf.keras.layers.Dropout(0.5)]
        self.head = tf.keras.Sequential([tf.keras.layers.Dense(3, "relu"), tf.keras.layers.Dense(2)])

    def call(self, ids, training=False):
        for layer in self.layers_of_words:
            ids = layer(ids, training=training) if layer.name.startswith("dropout") else layer(ids)
        return self.head(ids)


class Tagger(tf.Module):
    """Takes text, or numbers; returns text."""

    def __init__(self, model):
        self.model = model
        self.names = np.array(["low", "high"])
        self.__call__.get_concrete_function(tf.TensorSpec([None], tf.string))

    @tf.function
    def __call__(self, words):
        logits = self.model(self.model.numbers(words))
        return {"logits": logits, "names": tf.gather(self.names, tf.argmax(logits, -1))}


def trained_reader():
    model = Reader(["a", "b", "c"])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(np.arange(8) % 4, np.arange(8) % 2, verbose=0)
    return model


def test_functions_of_text_are_kept_as_python_code(tmp_path):
    model = trained_reader()
    before = Tagger(model)(tf.constant(["a", "c", "?"]))
    loaded = saved(Tagger(model), tmp_path / "tagger")
    after = loaded(tf.constant(["a", "c", "?"]))
    np.testing.assert_array_equal(after["logits"], before["logits"])
    assert after["names"].tolist() == before["names"].tolist()
    assert {*after["names"].tolist()} <= {"low", "high"}


def test_models_that_were_never_called_are_saved_by_their_functions(tmp_path):
    class Step(tf.keras.Model):
        def __init__(self, model):
            super().__init__()
            self.model = model

        @tf.function
        def follow(self, words, states=None):
            return tf.argmax(self.model(self.model.numbers(words)), -1), states

    step = Step(trained_reader())
    before, _ = step.follow(tf.constant(["b", "c"]))
    after, states = saved(step, tmp_path / "step").follow(tf.constant(["b", "c"]), states=None)
    assert after.numpy().tolist() == before.numpy().tolist()
    assert states is None


def test_what_cannot_be_pickled_says_why_it_had_to_be(tmp_path):
    class Locked(tf.Module):
        def __init__(self):
            self.lock = threading.Lock()

        @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
        def write(self, text):
            return tf.strings.length(text)

    with pytest.raises(SavedModelError, match="cannot be pickled: .* write takes text"):
        tf.saved_model.save(Locked(), tmp_path / "module")
    assert not (tmp_path / "module").exists()


def test_concrete_functions_are_saved_without_a_call(tmp_path):
    class Scaled(tf.Module):
        def __init__(self):
            self.factor = tf.Variable(2.0)

        @tf.function
        def __call__(self, x):
            return x * self.factor

    module = Scaled()
    module.__call__.get_concrete_function(tf.TensorSpec([None], tf.float32))
    module.__call__.get_concrete_function(x=tf.TensorSpec([None, 2], tf.float32))
    tf.saved_model.save(module, tmp_path / "scaled")
    loaded = tf.saved_model.load(tmp_path / "scaled")
    assert loaded(tf.constant([1.0, 3.0])).numpy().tolist() == [2.0, 6.0]
    assert loaded(x=tf.constant([[1.0, 3.0]])).numpy().tolist() == [[2.0, 6.0]]


def test_keras_layers_of_a_module_can_be_called(tmp_path):
    module = tf.Module()
    module.dense = tf.keras.layers.Dense(2)
    module.model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dropout(0.5), module.dense])
    module.embedding = tf.keras.layers.Embedding(4, 2)
    module.embedding(tf.constant([1]))
    loaded = saved(module, tmp_path / "layers")
    x = tf.reshape(tf.range(6.0), [2, 3])
    expected = module.dense(x).numpy()
    np.testing.assert_allclose(loaded.dense(x).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(loaded.model([[3.0, 4.0, 5.0]]).numpy(), expected[1:], rtol=1e-6)
    assert [each.shape for each in loaded.model.weights][-2:] == [(3, 2), (2,)]
    with pytest.raises(TypeError, match="cannot be called"):
        loaded.embedding(tf.constant([1]))


class Embedding(tf.train.Checkpoint):
    def __init__(self):
        super().__init__()
        self.size = 3
        self.table = tf.Variable([[1.0, 2.0]] * self.size)
        self.variables = self.trainable_variables = [self.table]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def __call__(self, ids):
        return tf.gather(self.table, ids)


def test_a_checkpoint_with_functions_is_a_module(tmp_path):
    loaded = saved(Embedding(), tmp_path / "embedding")
    assert loaded(tf.constant([0, 2])).numpy().tolist() == [[1, 2], [1, 2]]
    assert loaded.variables[0] is loaded.trainable_variables[0] is loaded.table
    assert not hasattr(loaded, "size")


def test_a_loaded_function_says_that_it_takes_dense_arrays(tmp_path):
    module = Scale()
    module(tf.constant([[1.0, 2.0]]))
    loaded = saved(module, tmp_path / "scale")
    with pytest.raises(ValueError, match=r"takes dense arrays then. Give it x.to_tensor\(\)"):
        loaded(tf.ragged.constant([[1.0, 2.0], [3.0]]))


def test_a_signature_may_return_a_variable(tmp_path):
    module = tf.Module()
    module.total = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def add(x):
        module.total.assign_add(x)
        return module.total

    module.add = add
    assert float(module.add(2.0)) == 3
    tf.saved_model.save(module, tmp_path / "m", signatures={"serving_default": module.add})
    loaded = tf.saved_model.load(tmp_path / "m")
    assert float(loaded.add(5.0)) == 8
    assert not isinstance(loaded, tf.Module)
