"""``tf.contrib.seq2seq.sequence_loss``."""

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(2, 3, 4)).astype(np.float32)
TARGETS = np.array([[0, 1, 2], [3, 0, 0]])
WEIGHTS = np.array([[1, 1, 0.5], [1, 0, 0]], np.float32)
EACH = (np.log(np.exp(LOGITS).sum(-1)) - np.take_along_axis(LOGITS, TARGETS[..., None], -1)[..., 0]) * WEIGHTS
sequence_loss = tf.contrib.seq2seq.sequence_loss


def test_losses_are_averaged_by_their_weights() -> None:
    loss = sequence_loss(LOGITS, TARGETS, WEIGHTS)
    assert float(loss) == pytest.approx(EACH.sum() / WEIGHTS.sum(), rel=1e-5)
    by_row = sequence_loss(LOGITS, TARGETS, WEIGHTS, average_across_batch=False)
    np.testing.assert_allclose(by_row, EACH.sum(1) / WEIGHTS.sum(1), rtol=1e-5)
    by_time = sequence_loss(LOGITS, TARGETS, WEIGHTS, average_across_timesteps=False)
    np.testing.assert_allclose(by_time, EACH.sum(0) / WEIGHTS.sum(0), rtol=1e-5)
    nothing = sequence_loss(LOGITS, TARGETS, np.zeros_like(WEIGHTS))
    assert float(nothing) == 0


def test_losses_are_summed_or_left() -> None:
    left = sequence_loss(LOGITS, TARGETS, WEIGHTS, False, False)
    np.testing.assert_allclose(left, EACH, rtol=1e-5)
    summed = sequence_loss(LOGITS, TARGETS, WEIGHTS, False, False, True, True)
    assert float(summed) == pytest.approx(EACH.sum() / 4, rel=1e-5)
    own = sequence_loss(
        LOGITS,
        TARGETS,
        WEIGHTS,
        softmax_loss_function=lambda labels, logits: logits[:, 0] * 0 + 1,
    )
    assert float(own) == pytest.approx(1)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"Logits must be a \[batch_size x sequence_length"):
        sequence_loss(LOGITS[0], TARGETS, WEIGHTS)
    with pytest.raises(ValueError, match="choose one of both"):
        sequence_loss(LOGITS, TARGETS, WEIGHTS, sum_over_batch=True)
