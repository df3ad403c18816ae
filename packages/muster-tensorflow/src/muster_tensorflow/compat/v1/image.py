"""``tf.compat.v1.image``: how TensorFlow 1 resized images, and the names of ``tf.image``."""

from typing import Any

from muster_tensorflow import image as _image
from muster_tensorflow.library.ops.images._image import (
    resize_with_crop_or_pad as resize_image_with_crop_or_pad,
)
from muster_tensorflow.library.ops.images._image import transpose as transpose_image
from muster_tensorflow.library.ops.images._image_more import extract_glimpse_of_v1 as extract_glimpse
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.operations._image import ResizeMethod as ResizeMethod
from muster_tensorflow.programs.v1.operations._image import resize_area as resize_area
from muster_tensorflow.programs.v1.operations._image import resize_bilinear as resize_bilinear
from muster_tensorflow.programs.v1.operations._image import resize_image_with_pad as resize_image_with_pad
from muster_tensorflow.programs.v1.operations._image import resize_images as resize
from muster_tensorflow.programs.v1.operations._image import resize_images as resize_images
from muster_tensorflow.programs.v1.operations._image import resize_nearest_neighbor as resize_nearest_neighbor
from muster_tensorflow.programs.v1.operations._old_operations import (
    extract_image_patches as extract_image_patches,
)
from muster_tensorflow.programs.v1.operations._old_operations import (
    sample_distorted_bounding_box as sample_distorted_bounding_box,
)
from muster_tensorflow.programs.v1.operations._old_parameters import crop_and_resize as crop_and_resize
from muster_tensorflow.programs.v1.operations._old_parameters import (
    draw_bounding_boxes as draw_bounding_boxes,
)


def __getattr__(name: str) -> Any:
    return _passed_on(_image, __name__, name)
