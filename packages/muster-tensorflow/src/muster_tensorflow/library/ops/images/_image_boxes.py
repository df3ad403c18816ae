"""``tf.image``: non-maximum suppression, and drawing of bounding boxes.

Boxes are (y1, x1, y2, x2); where a size of the image counts, they are from 0 to 1.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import known

# Yellow, blue, red, lime, purple, olive, maroon, navy, aqua and fuchsia.
_COLORS = np.array(
    [
        *([1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1]),
        *([0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]),
    ],
    np.float32,
)


class CombinedNonMaxSuppression(NamedTuple):
    """Detections, the best first, with zeros after the last; `combined_non_max_suppression` returns them.

    Attributes:
        nmsed_boxes: float32 of shape (batch, detections, 4).
        nmsed_scores: float32 of shape (batch, detections).
        nmsed_classes: The classes, float32 of shape (batch, detections).
        valid_detections: How many detections there are: int32 of shape (batch,).
    """

    nmsed_boxes: Any
    nmsed_scores: Any
    nmsed_classes: Any
    valid_detections: Any


@operation
def non_max_suppression(
    boxes: ArrayLike,
    scores: ArrayLike,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Array:
    """Return the indices of the best boxes, of which no two overlap by more than ``iou_threshold``.

    Args:
        boxes: Shape (boxes, 4).
        scores: Shape (boxes,).
        max_output_size: How many to return at most.
        iou_threshold: The largest share that two boxes may have in common, of what they cover together.
        score_threshold: Boxes with no larger score are left out.
        name: Unused.

    Returns:
        int32 of shape (selected,), the best first.

    Raises:
        TraceError: A compiled function or a step computes the boxes: how many are left is not known then.

    Source: tensorflow/python/ops/image_ops_impl.py, ``non_max_suppression``.
    """
    rows, values = (known(as_array(each), "tf.image.non_max_suppression") for each in (boxes, scores))
    count = min(int(max_output_size), len(values))
    chosen, found = best_boxes(rows, values, count, iou_threshold, score_threshold)
    return np.asarray(chosen, np.int32)[: int(np.sum(np.asarray(found) > -np.inf))]


@operation
def combined_non_max_suppression(
    boxes: ArrayLike,
    scores: ArrayLike,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """Keep the best boxes of each class and image, also in a step.

    Args:
        boxes: Shape (batch, boxes, classes, 4), or (batch, boxes, 1, 4) if they are those of all classes.
        scores: Shape (batch, boxes, classes).
        max_output_size_per_class: How many to keep of a class.
        max_total_size: How many to keep of an image.
        iou_threshold: As of `non_max_suppression`.
        score_threshold: Likewise.
        pad_per_class: Whether the results have no more places than all classes can fill.
        clip_boxes: Whether to cut the boxes off outside of the image.
        name: Unused.

    Source: tensorflow/core/kernels/image/non_max_suppression_op.cc, ``CombinedNonMaxSuppressionOp``.
    """
    all_boxes, all_scores = jnp.asarray(as_array(boxes)), jnp.asarray(as_array(scores))
    total, classes = int(max_total_size), all_scores.shape[2]
    of_class = min(int(max_output_size_per_class), all_scores.shape[1])
    if pad_per_class:
        total = min(total, int(max_output_size_per_class) * classes)
    all_boxes = jnp.broadcast_to(all_boxes, (*all_scores.shape, 4))
    best = partial(best_boxes, count=of_class, most=iou_threshold, above=score_threshold)

    def detected(rows: jax.Array, values: jax.Array) -> tuple[jax.Array, ...]:
        chosen, found = jax.vmap(best, in_axes=1)(rows, values)  # (classes, of_class)
        kept = jnp.take_along_axis(jnp.moveaxis(rows, 1, 0), chosen[..., None], axis=1).reshape(-1, 4)
        found, places = jax.lax.top_k(found.ravel(), min(total, found.size))
        valid = found > -jnp.inf
        kept = jnp.clip(kept, 0, 1) if clip_boxes else kept
        columns = (kept[places], found, (places // of_class).astype(jnp.float32))
        parts = (jnp.where(valid.reshape(-1, *(1,) * (each.ndim - 1)), each, 0) for each in columns)
        filled = (jnp.pad(each, ((0, total - len(found)), *((0, 0),) * (each.ndim - 1))) for each in parts)
        return (*filled, valid.sum().astype(jnp.int32))

    return CombinedNonMaxSuppression(*jax.vmap(detected)(all_boxes, all_scores))


@partial(jax.jit, static_argnames="count")
def best_boxes(boxes: jax.Array, scores: jax.Array, count: int, most: float, above: float) -> tuple[Any, Any]:
    """Return indices of boxes, the best first, and their scores; -inf where there is none."""
    low = jnp.minimum(boxes[:, :2], boxes[:, 2:])
    high = jnp.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low).prod(axis=-1)

    def take(left: jax.Array, _: Any) -> tuple[jax.Array, Any]:
        index = jnp.argmax(left)
        sides = jnp.minimum(high, high[index]) - jnp.maximum(low, low[index])
        common = jnp.maximum(sides, 0).prod(axis=-1)
        share = jnp.where((areas > 0) & (areas[index] > 0), common / (areas + areas[index] - common), 0)
        rest = jnp.where((share > most) | (jnp.arange(len(left)) == index), -jnp.inf, left)
        return rest, (index.astype(jnp.int32), left[index])

    found: tuple[Any, Any] = jax.lax.scan(take, jnp.where(scores > above, scores, -jnp.inf), length=count)[1]
    return found


@operation
def draw_bounding_boxes(
    images: ArrayLike, boxes: ArrayLike, colors: ArrayLike | None = None, name: str | None = None
) -> Array:
    """Draw boxes onto images, by lines of one pixel; the images are those of eager code or of a dataset.

    Args:
        images: Numbers from 0 to 1, of shape (batch, height, width, depth).
        boxes: From 0 to 1, of shape (batch, boxes, 4).
        colors: Shape (colors, depth), in turn for the boxes; None takes ten colours.
        name: Unused.

    Raises:
        TraceError: A compiled function or a step computes them.

    Source: tensorflow/core/kernels/image/draw_bounding_box_op.cc.
    """
    drawn = known(as_array(images), "tf.image.draw_bounding_boxes").copy()
    rows = known(as_array(boxes), "tf.image.draw_bounding_boxes")
    height, width, depth = drawn.shape[1:]
    palette: Any = _COLORS.copy()
    if colors is not None and (given := np.asarray(known(as_array(colors), "colors"))).size:
        palette = given.reshape(-1, given.shape[-1])
    elif depth == 1:
        palette[:, 0] = 1
    for image, those in zip(drawn, rows, strict=True):
        for number, box in enumerate(those):
            y1, x1, y2, x2 = (
                int(side * (size - 1)) for side, size in zip(box, (height, width) * 2, strict=True)
            )
            if y1 > y2 or x1 > x2 or y1 >= height or y2 < 0 or x1 >= width or x2 < 0:
                continue
            color = palette[number % len(palette)][:depth]
            for row in {y1, y2} & set(range(height)):
                image[row, max(x1, 0) : x2 + 1] = color
            for column in {x1, x2} & set(range(width)):
                image[max(y1, 0) : y2 + 1, column] = color
    return drawn
