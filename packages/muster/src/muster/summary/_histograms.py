"""The buckets of a histogram, as TensorBoard's plugin draws them."""

from typing import Any


def bucketed(values: Any, buckets: int = 30) -> Any:
    """Count values in buckets of equal width between the least and the greatest of them.

    Args:
        values: An array of any shape. NaN and infinities are left out.
        buckets: How many buckets, >= 0.

    Returns:
        Rows of (left edge, right edge, count), float64, shape (buckets, 3); without values, or with no
        bucket, shape (0, 3). If all values are equal, all edges are that value, and the last row counts.

    Raises:
        ValueError: There are less than 0 buckets.

    Source: tensorboard/plugins/histogram/summary_v2.py, ``histogram``.
    """
    import numpy as np

    if buckets < 0:
        raise ValueError(f"A histogram has 0 buckets or more, not {buckets}.")
    flat = np.asarray(values, np.float64).reshape(-1)
    flat = flat[np.isfinite(flat)]
    if buckets == 0 or not flat.size:
        return np.zeros((0, 3))
    low, high = flat.min(), flat.max()
    if low == high:
        rows = np.tile([low, low, 0.0], (buckets, 1))
        rows[-1, 2] = flat.size
        return rows
    counts, edges = np.histogram(flat, buckets, (low, high))
    return np.stack([edges[:-1], edges[1:], counts.astype(np.float64)], 1)
