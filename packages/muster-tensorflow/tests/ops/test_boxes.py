"""Boxes of images; the numbers are those of TensorFlow 2.15."""

from typing import Any

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError

BOXES = np.array(
    [
        *([0, 0, 0.5, 0.5], [0, 0, 0.5, 0.55], [0.5, 0.5, 1, 1]),
        *([0.9, 0.9, 0.4, 0.4], [0.2, 0.2, 0.2, 0.6], [0, 0.5, 0.5, 1.2]),
    ],
    np.float32,
)
SCORES = np.array([0.6, 0.9, 0.5, 0.7, 0.95, 0.3], np.float32)
BOTH = np.stack([SCORES, SCORES[::-1]], 1)[None]


def test_the_best_boxes_that_do_not_overlap() -> None:
    assert tf.image.non_max_suppression(BOXES, SCORES, 4).numpy().tolist() == [4, 1, 3, 2]
    assert tf.image.non_max_suppression(BOXES, SCORES, 4, 0.5, 0.5).numpy().tolist() == [4, 1, 3]
    assert tf.image.non_max_suppression(BOXES, SCORES, tf.constant(99), 0.1).numpy().tolist() == [4, 1, 3, 5]
    with pytest.raises(TraceError, match="non_max_suppression needs values that a compiled step computes"):
        jax.jit(lambda boxes: tf.image.non_max_suppression(boxes, SCORES, 4))(BOXES)


@pytest.mark.parametrize(
    ("options", "scores", "classes"),
    [
        ((3, 5), [0.95, 0.95, 0.9, 0.9, 0.7], [0, 1, 0, 1, 0]),
        ((2, 9, 0.5, 0.0, True), [0.95, 0.95, 0.9, 0.9], [0, 1, 0, 1]),
        ((1, 3, 0.5, 0.92), [0.95, 0.95, 0], [0, 1, 0]),
    ],
)
def test_the_best_boxes_of_all_classes(options: Any, scores: list[float], classes: list[float]) -> None:
    def detect(boxes: Any) -> Any:
        return tf.image.combined_non_max_suppression(boxes, BOTH, *options)

    for found in (detect(BOXES[None, :, None]), jax.jit(detect)(BOXES[None, :, None])):
        np.testing.assert_allclose(found.nmsed_scores, [scores])
        np.testing.assert_array_equal(found.nmsed_classes, [classes])
        assert int(found.valid_detections[0]) == np.count_nonzero(scores)
        np.testing.assert_allclose(found.nmsed_boxes[0, 0], BOXES[4])


def test_boxes_are_cut_off_at_the_image() -> None:
    boxes, scores = BOXES[None, 5:, None], np.ones((1, 1, 1), np.float32)
    for cuts, right in ((True, 1.0), (False, 1.2)):
        found = tf.image.combined_non_max_suppression(boxes, scores, 1, 1, clip_boxes=cuts)
        assert float(found.nmsed_boxes[0, 0, 3]) == pytest.approx(right)


def test_boxes_are_drawn() -> None:
    boxes = [[[0.1, 0.1, 0.7, 0.6], [0.5, 0.4, 1.2, 0.9], [-0.3, -0.2, 0.4, 0.5], [0.9, 0.9, 0.2, 0.3]]]
    drawn = tf.image.draw_bounding_boxes(np.zeros((1, 6, 8, 1), np.float32), boxes, [[0.5], [1.0]])
    rows = ["#####...", "#..##...", "####@@@.", "##@##.@.", "..@...@.", "..@...@."]
    signs = {0.0: ".", 0.5: "#", 1.0: "@"}
    found = ["".join(signs[value] for value in row) for row in np.asarray(drawn)[0, ..., 0].tolist()]
    assert found == rows
    colored = tf.image.draw_bounding_boxes(np.zeros((1, 4, 4, 3), np.float32), [[[0, 0, 1, 1]]], None)
    assert colored.numpy()[0, 0, 0].tolist() == [1, 1, 0]
