"""``tf.image``."""

from muster_tensorflow.io import decode_and_crop_jpeg as decode_and_crop_jpeg
from muster_tensorflow.io import decode_bmp as decode_bmp
from muster_tensorflow.io import decode_gif as decode_gif
from muster_tensorflow.io import decode_image as decode_image
from muster_tensorflow.io import decode_jpeg as decode_jpeg
from muster_tensorflow.io import decode_png as decode_png
from muster_tensorflow.io import encode_jpeg as encode_jpeg
from muster_tensorflow.io import encode_png as encode_png
from muster_tensorflow.io import extract_jpeg_shape as extract_jpeg_shape
from muster_tensorflow.io import is_jpeg as is_jpeg
from muster_tensorflow.library.ops._eager_values import shown as _shown
from muster_tensorflow.library.ops.images._image import ResizeMethod as ResizeMethod
from muster_tensorflow.library.ops.images._image import central_crop as central_crop
from muster_tensorflow.library.ops.images._image import crop_and_resize as crop_and_resize
from muster_tensorflow.library.ops.images._image import crop_to_bounding_box as crop_to_bounding_box
from muster_tensorflow.library.ops.images._image import extract_patches as extract_patches
from muster_tensorflow.library.ops.images._image import flip_left_right as flip_left_right
from muster_tensorflow.library.ops.images._image import flip_up_down as flip_up_down
from muster_tensorflow.library.ops.images._image import pad_to_bounding_box as pad_to_bounding_box
from muster_tensorflow.library.ops.images._image import resize as resize
from muster_tensorflow.library.ops.images._image import resize_with_crop_or_pad as resize_with_crop_or_pad
from muster_tensorflow.library.ops.images._image import resize_with_pad as resize_with_pad
from muster_tensorflow.library.ops.images._image import rot90 as rot90
from muster_tensorflow.library.ops.images._image import transpose as transpose
from muster_tensorflow.library.ops.images._image_boxes import (
    combined_non_max_suppression as combined_non_max_suppression,
)
from muster_tensorflow.library.ops.images._image_boxes import draw_bounding_boxes as draw_bounding_boxes
from muster_tensorflow.library.ops.images._image_boxes import non_max_suppression as non_max_suppression
from muster_tensorflow.library.ops.images._image_colors import adjust_brightness as adjust_brightness
from muster_tensorflow.library.ops.images._image_colors import adjust_contrast as adjust_contrast
from muster_tensorflow.library.ops.images._image_colors import adjust_gamma as adjust_gamma
from muster_tensorflow.library.ops.images._image_colors import adjust_hue as adjust_hue
from muster_tensorflow.library.ops.images._image_colors import adjust_saturation as adjust_saturation
from muster_tensorflow.library.ops.images._image_colors import convert_image_dtype as convert_image_dtype
from muster_tensorflow.library.ops.images._image_colors import grayscale_to_rgb as grayscale_to_rgb
from muster_tensorflow.library.ops.images._image_colors import hsv_to_rgb as hsv_to_rgb
from muster_tensorflow.library.ops.images._image_colors import image_gradients as image_gradients
from muster_tensorflow.library.ops.images._image_colors import (
    per_image_standardization as per_image_standardization,
)
from muster_tensorflow.library.ops.images._image_colors import psnr as psnr
from muster_tensorflow.library.ops.images._image_colors import rgb_to_grayscale as rgb_to_grayscale
from muster_tensorflow.library.ops.images._image_colors import rgb_to_hsv as rgb_to_hsv
from muster_tensorflow.library.ops.images._image_colors import rgb_to_yuv as rgb_to_yuv
from muster_tensorflow.library.ops.images._image_colors import sobel_edges as sobel_edges
from muster_tensorflow.library.ops.images._image_colors import ssim as ssim
from muster_tensorflow.library.ops.images._image_colors import ssim_multiscale as ssim_multiscale
from muster_tensorflow.library.ops.images._image_colors import total_variation as total_variation
from muster_tensorflow.library.ops.images._image_more import extract_glimpse as extract_glimpse
from muster_tensorflow.library.ops.images._image_more import (
    non_max_suppression_overlaps as non_max_suppression_overlaps,
)
from muster_tensorflow.library.ops.images._image_more import (
    non_max_suppression_padded as non_max_suppression_padded,
)
from muster_tensorflow.library.ops.images._image_more import (
    non_max_suppression_with_scores as non_max_suppression_with_scores,
)
from muster_tensorflow.library.ops.images._image_more import rgb_to_yiq as rgb_to_yiq
from muster_tensorflow.library.ops.images._image_more import (
    sample_distorted_bounding_box as sample_distorted_bounding_box,
)
from muster_tensorflow.library.ops.images._image_more import (
    stateless_sample_distorted_bounding_box as stateless_sample_distorted_bounding_box,
)
from muster_tensorflow.library.ops.images._image_more import yiq_to_rgb as yiq_to_rgb
from muster_tensorflow.library.ops.images._image_more import yuv_to_rgb as yuv_to_rgb
from muster_tensorflow.library.ops.images._image_random import random_brightness as random_brightness
from muster_tensorflow.library.ops.images._image_random import random_contrast as random_contrast
from muster_tensorflow.library.ops.images._image_random import random_crop as random_crop
from muster_tensorflow.library.ops.images._image_random import (
    random_flip_left_right as random_flip_left_right,
)
from muster_tensorflow.library.ops.images._image_random import random_flip_up_down as random_flip_up_down
from muster_tensorflow.library.ops.images._image_random import random_hue as random_hue
from muster_tensorflow.library.ops.images._image_random import random_saturation as random_saturation
from muster_tensorflow.library.ops.images._image_random import (
    stateless_random_brightness as stateless_random_brightness,
)
from muster_tensorflow.library.ops.images._image_random import (
    stateless_random_contrast as stateless_random_contrast,
)
from muster_tensorflow.library.ops.images._image_random import stateless_random_crop as stateless_random_crop
from muster_tensorflow.library.ops.images._image_random import (
    stateless_random_flip_left_right as stateless_random_flip_left_right,
)
from muster_tensorflow.library.ops.images._image_random import (
    stateless_random_flip_up_down as stateless_random_flip_up_down,
)
from muster_tensorflow.library.ops.images._image_random import stateless_random_hue as stateless_random_hue
from muster_tensorflow.library.ops.images._image_random import (
    stateless_random_saturation as stateless_random_saturation,
)
from muster_tensorflow.programs.v2.files import _jpeg_quality as _jpeg_quality

adjust_jpeg_quality = _shown(_jpeg_quality.adjust_jpeg_quality)
random_jpeg_quality = _shown(_jpeg_quality.random_jpeg_quality)
stateless_random_jpeg_quality = _shown(_jpeg_quality.stateless_random_jpeg_quality)
