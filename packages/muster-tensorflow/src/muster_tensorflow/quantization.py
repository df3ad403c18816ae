"""``tf.quantization``: fake quantization, for training."""

from muster_tensorflow.library.ops.nn._fake_quantization import (
    fake_quant_with_min_max_args as fake_quant_with_min_max_args,
)
from muster_tensorflow.library.ops.nn._fake_quantization import (
    fake_quant_with_min_max_vars as fake_quant_with_min_max_vars,
)
from muster_tensorflow.library.ops.nn._fake_quantization import (
    fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel,
)
