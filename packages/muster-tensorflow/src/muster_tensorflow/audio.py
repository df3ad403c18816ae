"""``tf.audio``."""

from muster_tensorflow.library.ops._eager_values import shown as _shown
from muster_tensorflow.library.ops._eager_values import shown_decoded as _shown_decoded
from muster_tensorflow.programs.v2.files import _audio

decode_wav = _shown_decoded(_audio.decode_wav)
encode_wav = _shown(_audio.encode_wav)
