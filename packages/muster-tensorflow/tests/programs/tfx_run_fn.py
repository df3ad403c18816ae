"""A trainer of a pipeline: run_fn makes an Estimator, specs and exports from arguments and files of examples."""

import os
import tempfile
from types import SimpleNamespace

import numpy as np

import muster_tensorflow as tf

_DENSE_FLOAT_FEATURE_KEYS = ["trip_miles", "fare", "trip_seconds"]
_VOCAB_FEATURE_KEYS = ["payment_type", "company"]
_BUCKET_FEATURE_KEYS = ["pickup_latitude", "pickup_longitude"]
_CATEGORICAL_FEATURE_KEYS = ["trip_start_hour", "trip_start_day"]
_MAX_CATEGORICAL_FEATURE_VALUES = [24, 31]
_FEATURE_BUCKET_COUNT, _VOCAB_SIZE, _OOV_SIZE = 10, 20, 2
_LABEL_KEY = "tips"
_TRAIN_BATCH_SIZE, _EVAL_BATCH_SIZE, _FIRST_DNN_LAYER_SIZE, _NUM_DNN_LAYERS, _DNN_DECAY_FACTOR = (
    40,
    40,
    16,
    2,
    0.7,
)


def _transformed_name(key):
    return key + "_xf"


def _transformed_names(keys):
    return [_transformed_name(key) for key in keys]


def _feature_spec(label=True):
    spec = {
        name: tf.io.FixedLenFeature([], tf.float32) for name in _transformed_names(_DENSE_FLOAT_FEATURE_KEYS)
    }
    for name in _transformed_names(_VOCAB_FEATURE_KEYS + _BUCKET_FEATURE_KEYS + _CATEGORICAL_FEATURE_KEYS):
        spec[name] = tf.io.FixedLenFeature([], tf.int64)
    if label:
        spec[_transformed_name(_LABEL_KEY)] = tf.io.FixedLenFeature([], tf.int64)
    return spec


def _gzip_reader_fn(filenames):
    return tf.data.TFRecordDataset(filenames, compression_type="GZIP")


def _build_estimator(config, hidden_units=None, warm_start_from=None):
    real_valued_columns = [
        tf.feature_column.numeric_column(key, shape=())
        for key in _transformed_names(_DENSE_FLOAT_FEATURE_KEYS)
    ]
    categorical_columns = [
        tf.feature_column.categorical_column_with_identity(
            key, num_buckets=_VOCAB_SIZE + _OOV_SIZE, default_value=0
        )
        for key in _transformed_names(_VOCAB_FEATURE_KEYS)
    ]
    categorical_columns += [
        tf.feature_column.categorical_column_with_identity(
            key, num_buckets=_FEATURE_BUCKET_COUNT, default_value=0
        )
        for key in _transformed_names(_BUCKET_FEATURE_KEYS)
    ]
    categorical_columns += [
        tf.feature_column.categorical_column_with_identity(key, num_buckets=num_buckets, default_value=0)
        for key, num_buckets in zip(
            _transformed_names(_CATEGORICAL_FEATURE_KEYS), _MAX_CATEGORICAL_FEATURE_VALUES
        )
    ]
    return tf.estimator.DNNLinearCombinedClassifier(
        config=config,
        linear_feature_columns=categorical_columns,
        dnn_feature_columns=real_valued_columns,
        dnn_hidden_units=hidden_units or [100, 70, 50, 25],
        warm_start_from=warm_start_from,
    )


def _example_serving_receiver_fn():
    raw_spec = _feature_spec(label=False)
    raw_input_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        raw_spec, default_batch_size=None
    )
    serving_input_receiver = raw_input_fn()
    features = dict(serving_input_receiver.features)
    return tf.estimator.export.ServingInputReceiver(features, serving_input_receiver.receiver_tensors)


def _eval_input_receiver_fn():
    serialized_tf_example = tf.compat.v1.placeholder(
        dtype=tf.string, shape=[None], name="input_example_tensor"
    )
    features = tf.io.parse_example(serialized=serialized_tf_example, features=_feature_spec())
    labels = features.pop(_transformed_name(_LABEL_KEY))
    return tf.estimator.experimental.build_raw_supervised_input_receiver_fn(features, labels)()


def _input_fn(file_pattern, batch_size=200):
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern, batch_size, _feature_spec(), reader=_gzip_reader_fn, shuffle_seed=1
    )
    return tf.compat.v1.data.make_one_shot_iterator(
        dataset.map(lambda features: (features, features.pop(_transformed_name(_LABEL_KEY))))
    ).get_next()


def _create_train_and_eval_spec(trainer_fn_args):
    train_input_fn = lambda: _input_fn(trainer_fn_args.train_files, batch_size=_TRAIN_BATCH_SIZE)
    eval_input_fn = lambda: _input_fn(trainer_fn_args.eval_files, batch_size=_EVAL_BATCH_SIZE)
    train_spec = tf.estimator.TrainSpec(train_input_fn, max_steps=trainer_fn_args.train_steps)
    exporter = tf.estimator.FinalExporter("chicago-taxi", _example_serving_receiver_fn)
    eval_spec = tf.estimator.EvalSpec(
        eval_input_fn, steps=trainer_fn_args.eval_steps, exporters=[exporter], name="chicago-taxi-eval"
    )
    run_config = tf.estimator.RunConfig(save_checkpoints_steps=999, keep_checkpoint_max=1)
    run_config = run_config.replace(model_dir=trainer_fn_args.serving_model_dir)
    warm_start_from = trainer_fn_args.base_models[0] if trainer_fn_args.base_models else None
    estimator = _build_estimator(
        hidden_units=[
            max(2, int(_FIRST_DNN_LAYER_SIZE * _DNN_DECAY_FACTOR**i)) for i in range(_NUM_DNN_LAYERS)
        ],
        config=run_config,
        warm_start_from=warm_start_from,
    )
    return {
        "estimator": estimator,
        "train_spec": train_spec,
        "eval_spec": eval_spec,
        "eval_input_receiver_fn": _eval_input_receiver_fn,
    }


def run_fn(fn_args):
    train_and_eval_spec = _create_train_and_eval_spec(fn_args)
    absl_logging = tf.get_logger()
    absl_logging.info("Training model.")
    tf.estimator.train_and_evaluate(
        train_and_eval_spec["estimator"], train_and_eval_spec["train_spec"], train_and_eval_spec["eval_spec"]
    )
    absl_logging.info("Training complete.  Model written to %s", fn_args.serving_model_dir)
    # Export the model as a pipeline does, with its evaluation, too.
    modes = {
        tf.estimator.ModeKeys.EVAL: train_and_eval_spec["eval_input_receiver_fn"],
        tf.estimator.ModeKeys.PREDICT: _example_serving_receiver_fn,
    }
    return train_and_eval_spec["estimator"].experimental_export_all_saved_models(
        fn_args.eval_model_dir, modes
    )


def write_examples(path, count, seed):
    rng = np.random.default_rng(seed)
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(path, options) as writer:
        for _ in range(count):
            example = tf.train.Example()
            put = example.features.feature
            fare = rng.normal()
            for key in _DENSE_FLOAT_FEATURE_KEYS:
                put[_transformed_name(key)].float_list.value.append(fare if key == "fare" else rng.normal())
            for key in _VOCAB_FEATURE_KEYS + _BUCKET_FEATURE_KEYS:
                put[_transformed_name(key)].int64_list.value.append(int(rng.integers(0, 10)))
            for key, size in zip(_CATEGORICAL_FEATURE_KEYS, _MAX_CATEGORICAL_FEATURE_VALUES):
                put[_transformed_name(key)].int64_list.value.append(int(rng.integers(0, size)))
            credit = put["payment_type_xf"].int64_list.value[0] < 4
            put[_transformed_name(_LABEL_KEY)].int64_list.value.append(int(credit and fare > -0.5))
            writer.write(example.SerializeToString())


tf.random.set_seed(2)
data, out = tempfile.mkdtemp(), tempfile.mkdtemp()
for i in range(2):
    write_examples(os.path.join(data, f"train-0000{i}-of-00002.gz"), 400, i)
write_examples(os.path.join(data, "eval-00000-of-00001.gz"), 200, 7)
fn_args = SimpleNamespace(
    train_files=[os.path.join(data, "train-*")],
    eval_files=[os.path.join(data, "eval-*")],
    train_steps=400,
    eval_steps=5,
    base_models=[],
    serving_model_dir=os.path.join(out, "serving_model_dir"),
    eval_model_dir=os.path.join(out, "eval_model_dir"),
)
exported = run_fn(fn_args)
print("exported", os.path.isdir(exported))
latest = tf.train.latest_checkpoint(fn_args.serving_model_dir)
print("steps", tf.train.load_checkpoint(latest).get_tensor("global_step"))
served = os.path.join(fn_args.serving_model_dir, "export", "chicago-taxi")
serving = tf.saved_model.load(os.path.join(served, os.listdir(served)[0])).signatures["serving_default"]
with tf.io.gfile.GFile(os.path.join(data, "eval-00000-of-00001.gz"), "rb"):
    records = list(
        _gzip_reader_fn(os.path.join(data, "eval-00000-of-00001.gz")).take(100).as_numpy_iterator()
    )
answers = serving(inputs=tf.constant(records))
labels = [tf.train.Example.FromString(r).features.feature["tips_xf"].int64_list.value[0] for r in records]
accuracy = np.mean(np.argmax(answers["scores"].numpy(), 1) == np.array(labels))
print("accuracy", accuracy)
assert accuracy > 0.7
# The next run starts from this one.
fn_args.base_models = [fn_args.serving_model_dir]
fn_args.train_steps = 20
fn_args.serving_model_dir = os.path.join(out, "second")
run_fn(fn_args)
second = tf.train.load_checkpoint(fn_args.serving_model_dir)
print("second", second.get_tensor("global_step"))
print("ok")
