"""Saving and loading models with strategies: Keras' format, checkpoints, an exported model."""

import numpy as np

import muster_tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
mirrored_strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def get_data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(256, 8)).astype(np.float32)
    y = x[:, :3].argmax(1)
    batch_size = 32 * mirrored_strategy.num_replicas_in_sync
    train = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(256).batch(batch_size)
    return train, tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)


def get_model():
    with mirrored_strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((8,)),
                tf.keras.layers.Dense(16, activation="relu"),
                tf.keras.layers.Dense(3),
            ]
        )
        model.compile(
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=tf.keras.optimizers.Adam(0.01),
            metrics=[tf.metrics.SparseCategoricalAccuracy()],
        )
        return model


model = get_model()
train_dataset, eval_dataset = get_data()
model.fit(train_dataset, epochs=3, verbose=0)
expected = model.evaluate(eval_dataset, verbose=0)

keras_model_path = "keras_save.keras"
model.save(keras_model_path)
restored_keras_model = tf.keras.models.load_model(keras_model_path)
np.testing.assert_allclose(restored_keras_model.evaluate(eval_dataset, verbose=0), expected, rtol=1e-4)
restored_keras_model.fit(train_dataset, epochs=1, verbose=0)

another_strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
with another_strategy.scope():
    restored_keras_model_ds = tf.keras.models.load_model(keras_model_path)
    np.testing.assert_allclose(restored_keras_model_ds.evaluate(eval_dataset, verbose=0), expected, rtol=1e-4)
    restored_keras_model_ds.fit(train_dataset, epochs=1, verbose=0)

saved_model_path = "tf_save"
tf.saved_model.save(model, saved_model_path)
DEFAULT_FUNCTION_KEY = "serving_default"
loaded = tf.saved_model.load(saved_model_path)
inference_func = loaded.signatures[DEFAULT_FUNCTION_KEY]
x, _ = next(iter(eval_dataset))
(outputs,) = inference_func(x).values()
np.testing.assert_allclose(np.asarray(outputs), model.predict(x, verbose=0), rtol=1e-3, atol=1e-4)

checkpoint = tf.train.Checkpoint(model=model)
path = checkpoint.save("checkpoints/ckpt")
other = get_model()
tf.train.Checkpoint(model=other).restore(path)
np.testing.assert_allclose(other.evaluate(eval_dataset, verbose=0), expected, rtol=1e-4)
model.save_weights("weights.weights.h5")
third = get_model()
third.load_weights("weights.weights.h5")
np.testing.assert_allclose(third.evaluate(eval_dataset, verbose=0), expected, rtol=1e-4)
print("ok")
