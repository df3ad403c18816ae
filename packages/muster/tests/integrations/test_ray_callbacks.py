"""What `muster.ray` checks without Ray."""

import pytest

import muster.data
import muster.ray


def test_checkpoints_are_of_whole_epochs():
    with pytest.raises(ValueError, match="checkpoint_every must be 1 or more, or None for no checkpoints"):
        muster.ray.ReportCallback(0)
    muster.ray.ReportCallback(None)


def test_only_rays_datasets_are_taken_for_them():
    with pytest.raises(TypeError, match=r"from_ray needs a ray.data.Dataset or a DataIterator, got \[1\]"):
        muster.data.Dataset.from_ray([1])
