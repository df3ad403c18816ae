"""Forecast a time series: windows of inputs and labels, of a class of its own and of Keras' function."""

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(2)
hours = np.arange(1600)
rng = np.random.default_rng(0)
day = 2 * np.pi * hours / 24
temperature = 10 * np.sin(day) + rng.normal(0, 0.5, hours.shape)
pressure = 1000 + np.cos(day / 7) + rng.normal(0, 0.1, hours.shape)
table = np.stack([temperature, pressure, np.sin(day), np.cos(day)], axis=1).astype(np.float32)
names = ["T (degC)", "p (mbar)", "Day sin", "Day cos"]

n = len(table)
train_df, val_df, test_df = table[: int(n * 0.7)], table[int(n * 0.7) : int(n * 0.9)], table[int(n * 0.9) :]
train_mean, train_std = train_df.mean(axis=0), train_df.std(axis=0)
train_df, val_df, test_df = ((part - train_mean) / train_std for part in (train_df, val_df, test_df))


class WindowGenerator:
    def __init__(self, input_width, label_width, shift, label_columns=None):
        self.label_columns = label_columns
        self.column_indices = {name: i for i, name in enumerate(names)}
        self.input_width = input_width
        self.label_width = label_width
        self.total_window_size = input_width + shift
        self.input_slice = slice(0, input_width)
        self.labels_slice = slice(self.total_window_size - label_width, None)

    def split_window(self, features):
        inputs = features[:, self.input_slice, :]
        labels = features[:, self.labels_slice, :]
        if self.label_columns is not None:
            labels = tf.stack(
                [labels[:, :, self.column_indices[name]] for name in self.label_columns], axis=-1
            )
        return inputs, labels

    def make_dataset(self, data):
        ds = tf.keras.utils.timeseries_dataset_from_array(
            data=np.array(data, dtype=np.float32),
            targets=None,
            sequence_length=self.total_window_size,
            sequence_stride=1,
            shuffle=True,
            batch_size=None,
        )
        return ds.batch(64, drop_remainder=True).map(self.split_window)

    @property
    def train(self):
        return self.make_dataset(train_df)

    @property
    def val(self):
        return self.make_dataset(val_df)

    @property
    def test(self):
        return self.make_dataset(test_df)


w2 = WindowGenerator(input_width=6, label_width=1, shift=1, label_columns=["T (degC)"])
for example_inputs, example_labels in w2.train.take(1):
    assert example_inputs.shape == (64, 6, 4)
    assert example_labels.shape == (64, 1, 1)


class Baseline(tf.keras.Model):
    def __init__(self, label_index=None):
        super().__init__()
        self.label_index = label_index

    def call(self, inputs):
        result = inputs[:, -1:, :]
        return result if self.label_index is None else result[:, :, self.label_index][:, :, None]


baseline = Baseline(label_index=0)
baseline.compile(loss=tf.keras.losses.MeanSquaredError(), metrics=[tf.keras.metrics.MeanAbsoluteError()])
baseline_loss, baseline_error = baseline.evaluate(w2.val, verbose=0)


def compile_and_fit(model, window, patience=2):
    early_stopping = tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=patience, mode="min")
    model.compile(
        loss=tf.keras.losses.MeanSquaredError(),
        optimizer=tf.keras.optimizers.Adam(0.01),
        metrics=[tf.keras.metrics.MeanAbsoluteError()],
    )
    return model.fit(
        window.train, epochs=3, validation_data=window.val, callbacks=[early_stopping], verbose=0
    )


multi_step_dense = tf.keras.Sequential(
    [
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(units=32, activation="relu"),
        tf.keras.layers.Dense(units=1),
        tf.keras.layers.Reshape([1, -1]),
    ]
)
compile_and_fit(multi_step_dense, w2)
dense_loss, dense_error = multi_step_dense.evaluate(w2.test, verbose=0, return_dict=False)
print("mean absolute errors", baseline_error, dense_error)
assert dense_error < 0.6 * baseline_error

# A recurrent network that sees a label at each step.
wide = WindowGenerator(input_width=12, label_width=12, shift=1, label_columns=["T (degC)"])
lstm_model = tf.keras.Sequential(
    [tf.keras.layers.LSTM(16, return_sequences=True), tf.keras.layers.Dense(units=1)]
)
history = compile_and_fit(lstm_model, wide)
assert history.history["val_loss"][-1] < history.history["loss"][0]


# The same windows by tf.data alone.
def windowed_dataset(series, window_size, batch_size, shuffle_buffer):
    dataset = tf.data.Dataset.from_tensor_slices(series)
    dataset = dataset.window(window_size + 1, shift=1, drop_remainder=True)
    dataset = dataset.flat_map(lambda window: window.batch(window_size + 1))
    dataset = dataset.shuffle(shuffle_buffer)
    dataset = dataset.map(lambda window: (window[:-1], window[-1]))
    return dataset.batch(batch_size, drop_remainder=True).prefetch(1)


series = train_df[:600, 0]
dataset = windowed_dataset(series, 24, 32, 1000)
window, following = next(iter(dataset))
assert window.shape == (32, 24)
assert following.shape == (32,)
linear = tf.keras.Sequential([tf.keras.layers.Dense(1)])
linear.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.01, momentum=0.9))
fitted = linear.fit(dataset, epochs=3, verbose=0)
assert fitted.history["loss"][-1] < 0.1
forecast = linear.predict(series[np.newaxis, -24:], verbose=0)
assert forecast.shape == (1, 1)
print("ok")
