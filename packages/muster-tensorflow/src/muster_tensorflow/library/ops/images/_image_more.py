"""More of ``tf.image``: colours of television, random boxes, glimpses, boxes with scores."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import known
from muster_tensorflow.library.ops.images._image_boxes import best_boxes
from muster_tensorflow.library.ops.random import _random, _stateless

_YIQ = np.array(
    [
        [0.299, 0.59590059, 0.2115],
        [0.587, -0.27455667, -0.52273617],
        [0.114, -0.32134392, 0.31119955],
    ],
    np.float32,
)
_FROM_YIQ = np.array(
    [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
)
_FROM_YUV = np.array([[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]])


@operation
def rgb_to_yiq(images: ArrayLike) -> Array:
    """Convert colours to brightness and two differences of colours, those of NTSC."""
    return jnp.asarray(as_array(images)) @ jnp.asarray(_YIQ)


@operation
def yiq_to_rgb(images: ArrayLike) -> Array:
    """Convert brightness and two differences of colours, those of NTSC, to colours."""
    return jnp.asarray(as_array(images)) @ jnp.asarray(_FROM_YIQ, np.float32)


@operation
def yuv_to_rgb(images: ArrayLike) -> Array:
    """Convert brightness and two differences of colours to colours."""
    return jnp.asarray(as_array(images)) @ jnp.asarray(_FROM_YUV, np.float32)


class DistortedBox(NamedTuple):
    """A part of an image, for ``tf.slice`` and as a box; `sample_distorted_bounding_box` returns it."""

    begin: Any
    size: Any
    bboxes: Any


def _sampled(
    draws: Any,
    image_size: Any,
    boxes: Any,
    min_object_covered: float,
    aspect_ratio_range: Sequence[float] | None,
    area_range: Sequence[float] | None,
    use_whole: bool | None,
) -> DistortedBox:
    """Take the first of some random parts that covers enough of a box, else all of the image."""
    what = "tf.image.sample_distorted_bounding_box"
    height, width = (int(each) for each in known(as_array(image_size), what)[:2])
    given = known(as_array(boxes), what).reshape(-1, 4)
    if not len(given):
        if not use_whole:
            raise ValueError("There are no boxes: give some, or use_image_if_no_bounding_boxes=True.")
        given = np.array([[0, 0, 1, 1]], np.float32)
    pixels = (given * [height, width, height, width]).astype(int)
    ratios, areas = aspect_ratio_range or (0.75, 1.33), area_range or (0.05, 1)
    top, left, high, wide = 0, 0, height, width
    for ratio_draw, size_draw, row_draw, column_draw in known(draws, what):
        ratio = ratios[0] + ratio_draw * (ratios[1] - ratios[0])
        # Heights whose parts have an area in the range, and fit into the image.
        least = round((areas[0] * height * width / ratio) ** 0.5)
        most = min(round((areas[1] * height * width / ratio) ** 0.5), height)
        if round(most * ratio) > width:
            most = int((width + 0.5 - 1e-7) / ratio)
        least = min(least, most)
        h = min(least + int(size_draw * (most - least + 1)), most)
        w = round(h * ratio)
        if h * w < areas[0] * height * width:
            h, w = h + 1, round((h + 1) * ratio)
        if not (areas[0] * height * width <= h * w <= areas[1] * height * width) or h > height or w > width:
            continue
        if min(h, w) <= 0:
            continue
        y, x = int(row_draw * (height - h + 1)), int(column_draw * (width - w + 1))
        sides = np.minimum(pixels[:, 2:], [y + h, x + w]) - np.maximum(pixels[:, :2], [y, x])
        common = np.maximum(sides, 0).prod(1)
        own = (pixels[:, 2:] - pixels[:, :2]).prod(1)
        if (common >= min_object_covered * own)[own > 0].any():
            top, left, high, wide = y, x, h, w
            break
    box = np.array([top / height, left / width, (top + high) / height, (left + wide) / width], np.float32)
    begin, size = np.array([top, left, 0], np.int32), np.array([high, wide, -1], np.int32)
    return DistortedBox(begin, size, box.reshape(1, 1, 4))


@operation
def sample_distorted_bounding_box(
    image_size: ArrayLike,
    bounding_boxes: ArrayLike,
    seed: int | None = 0,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
    seed2: int | None = None,
) -> DistortedBox:
    """Choose a random part of an image that covers enough of a box, or all of it.

    Args:
        image_size: Height, width and channels.
        bounding_boxes: Shape (1, boxes, 4): (y1, x1, y2, x2) from 0 to 1.
        seed: Seeds the choice; 0 and None take the seed of ``tf.random.set_seed``.
        min_object_covered: The least share of a box that is in the part.
        aspect_ratio_range: The least and the greatest width of the part, in heights.
        area_range: The least and the greatest share of the image.
        max_attempts: How often to try; None is 100.
        use_image_if_no_bounding_boxes: Whether without boxes all of the image is one.
        name: Unused.
        seed2: Another seed.

    Returns:
        ``begin`` and ``size`` for ``tf.slice``, and the part as a box, of shape (1, 1, 4).

    Raises:
        TraceError: A compiled function or a step computes the boxes.
    """
    draws = _random.uniform((max_attempts or 100, 4), seed=(seed or seed2) or None)
    options = (min_object_covered, aspect_ratio_range, area_range, use_image_if_no_bounding_boxes)
    return _sampled(draws, image_size, bounding_boxes, *options)


@operation
def stateless_sample_distorted_bounding_box(
    image_size: ArrayLike,
    bounding_boxes: ArrayLike,
    seed: ArrayLike,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> DistortedBox:
    """Choose the part that a seed of two integers says; as for `sample_distorted_bounding_box`."""
    draws = _stateless.stateless_uniform((max_attempts or 100, 4), seed)
    options = (min_object_covered, aspect_ratio_range, area_range, use_image_if_no_bounding_boxes)
    return _sampled(draws, image_size, bounding_boxes, *options)


@operation
def extract_glimpse(
    input: ArrayLike,
    size: ArrayLike,
    offsets: ArrayLike,
    centered: bool = True,
    normalized: bool = True,
    noise: str = "uniform",
    name: str | None = None,
) -> Array:
    """Cut a part out of each image; what is outside is noise.

    Args:
        input: Images of shape (batch, height, width, channels).
        size: Height and width of the parts.
        offsets: Where the parts are: a row and a column for each image, shape (batch, 2).
        centered: Whether (0, 0) is the middle of the images and of the parts.
        normalized: Whether offsets are from -1 to 1, or from 0 to 1, and not numbers of pixels.
        noise: ``"uniform"``, ``"gaussian"`` or ``"zero"``.
        name: Unused.

    Source: tensorflow/core/kernels/image/attention_ops.cc.
    """
    whole, part = np.array(as_array(input).shape[1:3]), np.array(as_shape(size))
    starts: Any = jnp.asarray(as_array(offsets)).astype(jnp.float32)
    starts = starts * whole if normalized else starts
    if centered:
        starts = starts / 2 + whole / 2 - part / 2 if normalized else starts + whole / 2
    return _glimpses(input, part, starts, noise)


@operation
def extract_glimpse_of_v1(
    input: ArrayLike,
    size: ArrayLike,
    offsets: ArrayLike,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Array:
    """Cut a part out of each image, as TensorFlow 1 does: the offsets are always those of its middle.

    Args:
        input: Images of shape (batch, height, width, channels).
        size: Height and width of the parts.
        offsets: Where the middles of the parts are: shape (batch, 2).
        centered: Whether (0, 0) is the middle of the images.
        normalized: Whether offsets are from -1 to 1, or from 0 to 1, and not numbers of pixels.
        uniform_noise: Whether the noise outside is uniform, or normal.
        name: Unused.
    """
    whole, part = np.array(as_array(input).shape[1:3]), np.array(as_shape(size))
    starts: Any = jnp.asarray(as_array(offsets)).astype(jnp.float32)
    starts = starts * whole if normalized else starts
    starts = starts / 2 + whole / 2 if centered else starts
    return _glimpses(input, part, starts - part / 2, "uniform" if uniform_noise else "gaussian")


def _glimpses(input: ArrayLike, part: Any, starts: Any, noise: str) -> Array:
    images = jnp.asarray(as_array(input)).astype(jnp.float32)
    whole = np.array(images.shape[1:3])
    starts = starts.astype(jnp.int32)
    rows = starts[:, :1, None] + np.arange(part[0])[:, None]
    columns = starts[:, 1:, None] + np.arange(part[1])
    inside = (rows >= 0) & (rows < whole[0]) & (columns >= 0) & (columns < whole[1])
    flat = images.reshape(images.shape[0], -1, images.shape[-1])
    at = jnp.clip(rows, 0, whole[0] - 1) * whole[1] + jnp.clip(columns, 0, whole[1] - 1)
    found = jax.vmap(lambda image, places: image[places])(flat, at)
    shape = found.shape
    if noise == "zero":
        rest: Any = jnp.zeros(shape)
    elif noise == "uniform":
        rest = images.min() + (images.max() - images.min()) * jnp.asarray(_random.uniform(shape))
    elif noise == "gaussian":
        rest = images.mean() + images.std() * jnp.asarray(_random.normal(shape))
    else:
        raise ValueError(f"noise is 'uniform', 'gaussian' or 'zero', got {noise!r}.")
    return jnp.where(inside[..., None], found, rest)


@partial(jax.jit, static_argnames="count")
def _soft(boxes: jax.Array, scores: jax.Array, count: int, most: float, above: float, sigma: float) -> Any:
    low, high = jnp.minimum(boxes[:, :2], boxes[:, 2:]), jnp.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low).prod(axis=-1)

    def take(left: jax.Array, _: Any) -> tuple[jax.Array, Any]:
        index = jnp.argmax(left)
        sides = jnp.minimum(high, high[index]) - jnp.maximum(low, low[index])
        common = jnp.maximum(sides, 0).prod(axis=-1)
        share = jnp.where((areas > 0) & (areas[index] > 0), common / (areas + areas[index] - common), 0)
        rest = jnp.where(share <= most, left * jnp.exp(-(share**2) / (2 * sigma)), -jnp.inf)
        rest = jnp.where((rest > above) & (jnp.arange(len(left)) != index), rest, -jnp.inf)
        return rest, (index.astype(jnp.int32), left[index])

    return jax.lax.scan(take, jnp.where(scores > above, scores, -jnp.inf), length=count)[1]


@operation
def non_max_suppression_with_scores(
    boxes: ArrayLike,
    scores: ArrayLike,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    soft_nms_sigma: float = 0.0,
    name: str | None = None,
) -> tuple[Array, Array]:
    """Return the indices of the best boxes and their scores, which others' overlaps lower if asked.

    Args:
        boxes: Shape (boxes, 4).
        scores: Shape (boxes,).
        max_output_size: How many to return at most.
        iou_threshold: Boxes that overlap with a better one by a larger share are left out.
        score_threshold: Boxes with no larger score are left out.
        soft_nms_sigma: How much an overlap may be: a score is multiplied by ``exp(-share² / (2 sigma))``.
        name: Unused.

    Raises:
        TraceError: A compiled function or a step computes the boxes.
    """
    what = "tf.image.non_max_suppression_with_scores"
    rows, values = (known(as_array(each), what) for each in (boxes, scores))
    count = min(int(max_output_size), len(values))
    if soft_nms_sigma:
        chosen, found = _soft(rows, values, count, iou_threshold, score_threshold, soft_nms_sigma)
    else:
        chosen, found = best_boxes(rows, values, count, iou_threshold, score_threshold)
    there = int(np.sum(np.asarray(found) > -np.inf))
    return np.asarray(chosen, np.int32)[:there], np.asarray(found)[:there]


@operation
def non_max_suppression_padded(
    boxes: ArrayLike,
    scores: ArrayLike,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Array, Array]:
    """Return the indices of the best boxes, with zeros after the last if asked, and how many there are.

    Also in a step, for ``pad_to_max_output_size``.

    Args:
        boxes: Shape (…, boxes, 4).
        scores: Shape (…, boxes).
        max_output_size: How many to return.
        iou_threshold: As of ``non_max_suppression``.
        score_threshold: Likewise.
        pad_to_max_output_size: Whether there are always so many indices.
        name: Unused.
        sorted_input: Unused.
        canonicalized_coordinates: Unused.
        tile_size: Unused.
    """
    rows, values = jnp.asarray(as_array(boxes)), jnp.asarray(as_array(scores))
    total = int(max_output_size)
    best = partial(best_boxes, count=min(total, values.shape[-1]), most=iou_threshold, above=score_threshold)
    for _ in range(values.ndim - 1):
        best = jax.vmap(best)
    chosen, found = best(rows, values)
    there = found > -jnp.inf
    valid = jnp.sum(there, -1).astype(jnp.int32)
    chosen = jnp.where(there, chosen, 0)
    if pad_to_max_output_size:
        room = [(0, 0)] * (chosen.ndim - 1)
        return jnp.pad(chosen, [*room, (0, total - chosen.shape[-1])]), valid
    longest = known(valid, "tf.image.non_max_suppression_padded without pad_to_max_output_size").max(
        initial=0
    )
    return chosen[..., : int(longest)], valid


@operation
def non_max_suppression_overlaps(
    overlaps: ArrayLike,
    scores: ArrayLike,
    max_output_size: Any,
    overlap_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Array:
    """Return the indices of the best boxes, of which no two have a larger overlap, given for all pairs."""
    what = "tf.image.non_max_suppression_overlaps"
    pairs, values = (known(as_array(each), what) for each in (overlaps, scores))
    chosen: list[int] = []
    for index in np.argsort(-values, kind="stable").tolist():
        if len(chosen) == int(max_output_size) or not values[index] > score_threshold:
            break
        if not any(pairs[index, other] > overlap_threshold for other in chosen):
            chosen.append(index)
    return np.array(chosen, np.int32)
