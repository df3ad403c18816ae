"""Tag words by a recurrent model and a CRF: text goes into the model_fn, and tags come out of predictions."""

import os
import random
import tempfile

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow import contrib

PLACES, PEOPLE, OTHER = (
    ["rome", "oslo", "quito"],
    ["ada", "alan", "grace"],
    ["met", "in", "saw", "and", "left"],
)


def write_data(folder, count, seed):
    rng = random.Random(seed)
    with (
        open(os.path.join(folder, "words.txt"), "w") as words,
        open(os.path.join(folder, "tags.txt"), "w") as tags,
    ):
        for _ in range(count):
            sentence = [rng.choice(rng.choice([PLACES, PEOPLE, OTHER])) for _ in range(rng.randint(2, 6))]
            words.write(" ".join(sentence) + "\n")
            tags.write(
                " ".join("LOC" if w in PLACES else "PER" if w in PEOPLE else "O" for w in sentence) + "\n"
            )


def write_vocabulary(path, words):
    with open(path, "w") as file:
        file.write("".join(f"{word}\n" for word in words))


def pair(line, tag_line):
    words = [w.encode() for w in line.strip().split()]
    tags = [t.encode() for t in tag_line.strip().split()]
    assert len(words) == len(tags)
    return (words, len(words)), tags


def read_sentences(folder):
    with open(os.path.join(folder, "words.txt")) as words, open(os.path.join(folder, "tags.txt")) as tags:
        for line, tag_line in zip(words, tags):
            yield pair(line, tag_line)


def input_fn(folder, params=None, for_training=False):
    shapes = (([None], ()), [None])
    types = ((tf.string, tf.int32), tf.string)
    defaults = (("<pad>", 0), "O")
    dataset = tf.data.Dataset.from_generator(
        lambda: read_sentences(folder), output_types=types, output_shapes=shapes
    )
    if for_training:
        dataset = dataset.shuffle(params["buffer"]).repeat(params["epochs"])
    return dataset.padded_batch(params.get("batch_size", 20), shapes, defaults).prefetch(1)


def model_fn(features, labels, mode, params):
    if isinstance(features, dict):  # of a request
        features = features["words"], features["nwords"]
    words, nwords = features
    training = mode == tf.estimator.ModeKeys.TRAIN
    word_table = contrib.lookup.index_table_from_file(
        params["words"], num_oov_buckets=params["num_oov_buckets"]
    )
    with tf.gfile.GFile(params["tags"]) as file:
        indices = [idx for idx, tag in enumerate(file) if tag.strip() != "O"]
        num_tags = len(indices) + 1

    numbers = word_table.lookup(words)
    table = tf.get_variable("embeddings", [params["size"] + params["num_oov_buckets"], 8])
    embeddings = tf.nn.embedding_lookup(table, numbers)
    embeddings = tf.layers.dropout(embeddings, rate=params["dropout"], training=training)

    t = tf.transpose(embeddings, perm=[1, 0, 2])
    forward = contrib.rnn.LSTMBlockFusedCell(8)
    backward = contrib.rnn.TimeReversedFusedRNN(contrib.rnn.LSTMBlockFusedCell(8))
    to_right, _ = forward(t, dtype=tf.float32, sequence_length=nwords)
    to_left, _ = backward(t, dtype=tf.float32, sequence_length=nwords)
    output = tf.transpose(tf.concat([to_right, to_left], axis=-1), perm=[1, 0, 2])

    logits = tf.layers.dense(output, num_tags)
    transitions = tf.get_variable("transitions", [num_tags, num_tags], dtype=tf.float32)
    pred_ids, _ = contrib.crf.crf_decode(logits, transitions, nwords)

    if mode == tf.estimator.ModeKeys.PREDICT:
        names_of_tags = contrib.lookup.index_to_string_table_from_file(params["tags"])
        names = names_of_tags.lookup(tf.to_int64(pred_ids))
        return tf.estimator.EstimatorSpec(mode, predictions={"pred_ids": pred_ids, "tags": names})

    tag_table = contrib.lookup.index_table_from_file(params["tags"])
    tags = tag_table.lookup(labels)
    likelihood, _ = contrib.crf.crf_log_likelihood(logits, tags, nwords, transitions)
    loss = tf.reduce_mean(-likelihood)
    weights = tf.sequence_mask(nwords)
    metrics = {
        "acc": tf.metrics.accuracy(tags, pred_ids, weights),
        "precision": tf.metrics.precision(tf.not_equal(tags, 0), tf.not_equal(pred_ids, 0), weights),
    }
    for name, pair_of_ops in metrics.items():
        tf.summary.scalar(name, pair_of_ops[1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_fn():
    words = tf.placeholder(dtype=tf.string, shape=[None, None], name="words")
    nwords = tf.placeholder(dtype=tf.int32, shape=[None], name="nwords")
    receiver_tensors = {"words": words, "nwords": nwords}
    return tf.estimator.export.ServingInputReceiver(dict(receiver_tensors), receiver_tensors)


def main():
    tf.set_random_seed(3)
    folder = tempfile.mkdtemp()
    for name, count in (("train", 200), ("test", 40)):
        os.makedirs(os.path.join(folder, name))
        write_data(os.path.join(folder, name), count, seed=count)
    write_vocabulary(os.path.join(folder, "vocab.words.txt"), PLACES + PEOPLE + OTHER[:-1])
    write_vocabulary(os.path.join(folder, "vocab.tags.txt"), ["O", "PER", "LOC"])
    params = {
        "dropout": 0.2,
        "num_oov_buckets": 1,
        "epochs": 6,
        "batch_size": 20,
        "buffer": 200,
        "size": len(PLACES + PEOPLE + OTHER) - 1,
        "words": os.path.join(folder, "vocab.words.txt"),
        "tags": os.path.join(folder, "vocab.tags.txt"),
    }
    train = lambda: input_fn(os.path.join(folder, "train"), params, for_training=True)
    test = lambda: input_fn(os.path.join(folder, "test"), params)
    config = tf.estimator.RunConfig(save_checkpoints_secs=120)
    estimator = tf.estimator.Estimator(model_fn, os.path.join(folder, "model"), config, params)
    hook = contrib.estimator.stop_if_no_increase_hook(
        estimator, "acc", 500, min_steps=8000, run_every_secs=120
    )
    train_spec = tf.estimator.TrainSpec(input_fn=train, hooks=[hook])
    eval_spec = tf.estimator.EvalSpec(input_fn=test, throttle_secs=120)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    scores = estimator.evaluate(test)
    assert scores["acc"] > 0.95, scores

    expected = read_sentences(os.path.join(folder, "test"))
    right = total = 0
    for given, found in zip(expected, estimator.predict(test)):
        (words, _), tags = given
        right += sum(tag == pred for tag, pred in zip(tags, found["tags"]))
        total += len(words)
    assert right / total > 0.95, (right, total)

    exported = estimator.export_saved_model(os.path.join(folder, "exported"), serving_input_fn)
    predict = contrib.predictor.from_saved_model(exported)
    sentence = ["ada", "left", "rome"]
    answer = predict({"words": [sentence], "nwords": [len(sentence)]})
    assert [tag.decode() for tag in answer["tags"][0]] == ["PER", "O", "LOC"], answer


main()
print("ok")
