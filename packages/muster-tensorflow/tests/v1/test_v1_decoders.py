"""Decoders of ``tf.contrib.seq2seq``. The values are those of TensorFlow Addons 0.22 on TensorFlow 2.15."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.contrib import seq2seq
from muster_tensorflow.programs.v1.rnn_cell import RNNCell

UNITS, CLASSES = 6, 7
NOTHING: Any = None


def drawn(seed: int, *shape: int) -> Any:
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def by_shape(shape: Any, dtype: Any = None) -> Any:
    return drawn(sum(shape), *shape) * np.float32(0.5)


RANDOM = np.random.RandomState(0)
MEMORY = RANDOM.randn(3, 5, UNITS).astype(np.float32)
INPUTS = RANDOM.randn(3, 4, 5).astype(np.float32)
LENGTHS, MEMORY_LENGTHS = np.array([4, 2, 3], np.int32), np.array([5, 3, 4], np.int32)
EMBEDDING, PROJECTION, STATE = drawn(99, CLASSES, 5), drawn(98, UNITS, CLASSES), drawn(5, 3, UNITS)


class Cell(RNNCell):
    state_size = output_size = UNITS

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        joined = jnp.concatenate([inputs, state], 1)
        output = jnp.tanh(joined @ by_shape((joined.shape[1], UNITS)))
        return output, output


def projected(outputs: Any) -> Any:
    return outputs @ PROJECTION


def attended(make: Any, impute: bool, inputs: Any = INPUTS, **options: Any) -> dict[str, Any]:
    with tf.variable_scope("model", initializer=by_shape):
        cell = seq2seq.AttentionWrapper(Cell(), make(), attention_layer_size=4, alignment_history=True)
        decoder = seq2seq.BasicDecoder(
            cell,
            seq2seq.TrainingHelper(inputs, LENGTHS),
            cell.zero_state(3, tf.float32),
            tf.layers.Dense(CLASSES, use_bias=False),
        )
        outputs, state, lengths = seq2seq.dynamic_decode(decoder, impute_finished=impute, **options)
    return {
        "sums": outputs.rnn_output.sum(-1),
        "ids": outputs.sample_id,
        "lengths": lengths,
        "attention": state.attention.sum(-1),
        "history": state.alignment_history.stack()[:, :, 0],
        "time": state.time,
    }


MECHANISMS: dict[str, Callable[[], Any]] = {
    "bahdanau": lambda: seq2seq.BahdanauAttention(UNITS, MEMORY, MEMORY_LENGTHS),
    "normalized": lambda: seq2seq.BahdanauAttention(UNITS, MEMORY, MEMORY_LENGTHS, normalize=True),
    "luong": lambda: seq2seq.LuongAttention(UNITS, MEMORY, MEMORY_LENGTHS),
}
# Mechanism: the sums of the outputs, the last attention, its sums where finished sequences keep their state,
# and the weights of the first time step.
ATTENDED = {
    "bahdanau": (
        [
            [0.9823, 1.842, -2.4782, -2.9559],
            [-5.122, -5.2463, -5.518, -5.939],
            [2.5358, 3.047, 2.0483, 4.4644],
        ],
        [-2.2713, -3.0504, -4.614],
        [-2.2713, -2.2806, 0.3815],
        [
            [0.0491, 0.3195, 0.2871],
            [0.0955, 0.403, 0.2238],
            [0.0909, 0.4071, 0.3003],
            [0.0935, 0.3929, 0.2194],
        ],
    ),
    "normalized": (
        [
            [-0.5924, 0.2061, -5.9589, -2.8617],
            [-4.9143, -5.3681, -5.5875, -6.0649],
            [2.4809, 2.9905, 1.9918, 4.5722],
        ],
        [-1.4864, -3.2558, -3.5283],
        [-1.4864, -2.4879, 1.1053],
        [
            [0.151, 0.3502, 0.2741],
            [0.1829, 0.3618, 0.2602],
            [0.1542, 0.3683, 0.2746],
            [0.1731, 0.365, 0.2603],
        ],
    ),
    "luong": (
        [
            [0.5679, 0.2523, -3.2311, -2.3524],
            [-3.3605, -3.722, -3.5475, -4.1624],
            [2.1757, 2.3342, 2.0986, 3.746],
        ],
        [-0.2547, -1.608, 3.6543],
        [-0.2547, -0.8893, -1.4702],
        [
            [0.097, 0.7841, 0.0895],
            [0.1708, 0.8034, 0.0783],
            [0.0194, 0.8392, 0.0139],
            [0.0171, 0.8438, 0.0034],
        ],
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_attention(name: str) -> None:
    sums, attention, kept, history = ATTENDED[name]
    found = outputs_of(lambda _: attended(MECHANISMS[name], impute=False))
    np.testing.assert_allclose(found["sums"], sums, atol=2e-4)
    np.testing.assert_allclose(found["attention"], attention, atol=2e-4)
    np.testing.assert_allclose(found["history"], history, atol=1e-4)
    assert found["lengths"].tolist() == [4, 2, 3]
    assert found["time"] == 4
    found = outputs_of(lambda _: attended(MECHANISMS[name], impute=True))
    np.testing.assert_allclose(found["sums"], np.where(np.arange(4) < LENGTHS[:, None], sums, 0), atol=2e-4)
    np.testing.assert_allclose(found["attention"], kept, atol=2e-4)


def test_time_steps_after_the_last_are_zeros_in_a_step_and_absent_in_eager_code() -> None:
    longer = np.pad(INPUTS, [(0, 0), (0, 3), (0, 0)])

    def decode(limit: Any = None) -> dict[str, Any]:
        return attended(MECHANISMS["luong"], False, longer, maximum_iterations=limit)

    found = outputs_of(lambda _: decode())
    np.testing.assert_allclose(found["sums"][:, :4], ATTENDED["luong"][0], atol=2e-4)
    np.testing.assert_allclose(found["attention"], ATTENDED["luong"][1], atol=2e-4)
    assert found["sums"].shape == (3, 7)
    assert not found["sums"][:, 4:].any()
    assert found["time"] == 4
    np.testing.assert_allclose(decode()["sums"], ATTENDED["luong"][0], atol=2e-4)
    limited = outputs_of(lambda one: decode((2 * one).astype(int)))
    assert limited["lengths"].tolist() == [2, 2, 2]
    np.testing.assert_allclose(limited["sums"][:, :2], np.array(ATTENDED["luong"][0])[:, :2], atol=2e-4)
    assert not limited["sums"][:, 2:].any()


def greedy(limit: Any = 6) -> Any:
    helper = seq2seq.GreedyEmbeddingHelper(EMBEDDING, tf.fill([3], 1), 2)
    decoder = seq2seq.BasicDecoder(Cell(), helper, STATE, projected)
    return seq2seq.dynamic_decode(decoder, maximum_iterations=limit)


def test_the_likeliest_class_is_the_next_input() -> None:
    outputs, _, lengths = greedy()
    assert lengths.tolist() == [2, 6, 2]
    assert outputs.sample_id.tolist() == [[0, 2, 3, 6, 6, 6], [3, 5, 6, 3, 1, 0], [1, 2, 2, 1, 2, 1]]


def test_a_step_must_know_how_long_it_may_go_on() -> None:
    # A count of two values is at most 2, so that 3 times as much is at most 6.
    counted = outputs_of(
        lambda one: {"ids": greedy(tf.round(3 * tf.reduce_sum(tf.to_int32(one * [1, 1] > 0))))[0].sample_id}
    )
    assert counted["ids"].tolist() == greedy()[0].sample_id.tolist()
    with pytest.raises(ValueError, match="give dynamic_decode maximum_iterations, as a Python number"):
        outputs_of(lambda one: {"ids": greedy((6 * one).astype(int))[0].sample_id})
    with pytest.raises(ValueError, match="maximum_iterations"):
        greedy(None)


@pytest.mark.parametrize(
    ("penalty", "ids", "lengths", "scores"),
    [
        (
            0.0,
            [
                [[0, 2, 0], [2, 2, 4], [2, 2, 5], [2, 2, 6], [2, 2, 3], [2, 2, 1]],
                [[3, 3, 3], [5, 5, 5], [4, 1, 6], [1, 0, 3], [2, 2, 1], [2, 2, 0]],
                [[1, 2, 1], [2, 2, 0], [2, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2]],
            ],
            [[2, 1, 6], [5, 5, 6], [2, 1, 3]],
            [[-1.4196, -1.7879, -4.8094], [-3.3047, -3.3937, -4.1911], [-0.9361, -1.6832, -2.6561]],
        ),
        (
            1.0,
            [
                [[0, 0, 0], [2, 5, 4], [2, 6, 5], [2, 3, 6], [2, 1, 3], [2, 0, 1]],
                [[3, 3, 3], [5, 5, 5], [4, 1, 6], [1, 0, 3], [2, 2, 1], [2, 2, 0]],
                [[1, 2, 1], [2, 2, 0], [2, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2]],
            ],
            [[2, 6, 6], [5, 5, 6], [2, 1, 3]],
            [[-1.2168, -2.3459, -2.6233], [-1.9828, -2.0362, -2.2861], [-0.8024, -1.6832, -1.9921]],
        ),
    ],
)
def test_beams(penalty: float, ids: Any, lengths: Any, scores: Any) -> None:
    decoder = seq2seq.BeamSearchDecoder(
        cell=Cell(),
        embedding=lambda ids: tf.nn.embedding_lookup(EMBEDDING, ids),
        start_tokens=tf.fill([3], 1),
        end_token=2,
        initial_state=seq2seq.tile_batch(STATE, 3),
        beam_width=3,
        output_layer=projected,
        length_penalty_weight=penalty,
    )
    outputs, state, found = seq2seq.dynamic_decode(decoder, maximum_iterations=6)
    assert outputs.predicted_ids.tolist() == ids
    assert found.tolist() == lengths
    np.testing.assert_allclose(outputs.beam_search_decoder_output.scores[:, -1], scores, atol=1e-4)
    assert state.cell_state.shape == (3, 3, UNITS)


def test_beams_with_attention_in_a_step() -> None:
    def build(_: Any) -> Any:
        with tf.variable_scope("model", initializer=by_shape):
            memory, lengths = seq2seq.tile_batch((MEMORY, MEMORY_LENGTHS), multiplier=2)
            attention = seq2seq.LuongAttention(UNITS, memory, lengths)
            cell = seq2seq.AttentionWrapper(Cell(), attention, attention_layer_size=UNITS)
            first = cell.zero_state(6, tf.float32).clone(cell_state=seq2seq.tile_batch(STATE, 2))
            decoder = seq2seq.BeamSearchDecoder(
                cell, EMBEDDING, tf.fill([3], 1), 2, first, 2, tf.layers.Dense(CLASSES)
            )
            outputs, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
        return {"ids": outputs.predicted_ids, "lengths": lengths}

    found, eager = outputs_of(build), build(None)
    assert found["ids"].shape == (3, 5, 2)
    assert np.array_equal(found["lengths"], eager["lengths"])
    assert np.array_equal(found["ids"][:, : eager["ids"].shape[1]], eager["ids"])


def test_drawn_inputs_are_others_in_each_time_step() -> None:
    def build(_: Any) -> Any:
        inputs = jnp.zeros((3, 40, 5))
        helper = seq2seq.ScheduledEmbeddingTrainingHelper(inputs, tf.fill([3], 40), EMBEDDING, 0.5)
        decoder = seq2seq.BasicDecoder(Cell(), helper, STATE, projected)
        return {"ids": seq2seq.dynamic_decode(decoder)[0].sample_id}

    ids = np.asarray(outputs_of(build)["ids"])
    assert 20 < (ids == -1).sum() < 100
    assert len(set(ids[0].tolist())) > 3
    sampling = seq2seq.SampleEmbeddingHelper(EMBEDDING, tf.fill([3], 1), end_token=-1)
    decoder = seq2seq.BasicDecoder(Cell(), sampling, STATE, lambda outputs: jnp.zeros((3, CLASSES)))
    drawn_ids = seq2seq.dynamic_decode(decoder, maximum_iterations=30)[0].sample_id
    assert len(set(drawn_ids[0].tolist())) > 3


def test_helpers_of_functions() -> None:
    custom = seq2seq.CustomHelper(
        lambda: (tf.fill([3], False), EMBEDDING[:3]),
        lambda time, outputs, state: tf.argmax(outputs, -1),
        lambda time, outputs, state, sample_ids: (sample_ids == 2, tf.gather(EMBEDDING, sample_ids), state),
    )
    own = seq2seq.InferenceHelper(
        lambda outputs: outputs[:, :5], [5], tf.float32, EMBEDDING[:3], lambda samples: samples[:, 0] > 2
    )
    for helper in (custom, own):
        decoder = seq2seq.BasicDecoder(Cell(), helper, STATE, projected)
        outputs, _, lengths = seq2seq.dynamic_decode(decoder, output_time_major=True, maximum_iterations=4)
        assert outputs.rnn_output.shape == (lengths.max(), 3, CLASSES)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: seq2seq.TrainingHelper(INPUTS, 3), ValueError, "to be a vector"),
        (lambda: seq2seq.GreedyEmbeddingHelper(EMBEDDING, 1, 2), ValueError, "start_tokens must be a vector"),
        (lambda: seq2seq.BasicDecoder(Cell(), NOTHING, STATE), TypeError, "helper must be a Helper"),
        (lambda: seq2seq.dynamic_decode(NOTHING), TypeError, "Expected decoder to be type Decoder"),
        (lambda: seq2seq.AttentionWrapper(Cell(), NOTHING), TypeError, "must be an AttentionMechanism"),
        (
            lambda: seq2seq.AttentionWrapper(Cell(), MECHANISMS["luong"](), [1, 2]),
            ValueError,
            "1 mechanisms, and 2 layers",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
