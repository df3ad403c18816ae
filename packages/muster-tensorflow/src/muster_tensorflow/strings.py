"""``tf.strings``, on the host."""

from muster_tensorflow.library.ops.text._more_strings import unsorted_segment_join as unsorted_segment_join
from muster_tensorflow.library.ops.text._strings import as_string as as_string
from muster_tensorflow.library.ops.text._strings import bytes_split as bytes_split
from muster_tensorflow.library.ops.text._strings import format as format
from muster_tensorflow.library.ops.text._strings import join as join
from muster_tensorflow.library.ops.text._strings import length as length
from muster_tensorflow.library.ops.text._strings import lower as lower
from muster_tensorflow.library.ops.text._strings import ngrams as ngrams
from muster_tensorflow.library.ops.text._strings import reduce_join as reduce_join
from muster_tensorflow.library.ops.text._strings import regex_full_match as regex_full_match
from muster_tensorflow.library.ops.text._strings import regex_replace as regex_replace
from muster_tensorflow.library.ops.text._strings import split as split
from muster_tensorflow.library.ops.text._strings import strip as strip
from muster_tensorflow.library.ops.text._strings import substr as substr
from muster_tensorflow.library.ops.text._strings import to_hash_bucket as to_hash_bucket
from muster_tensorflow.library.ops.text._strings import to_hash_bucket_fast as to_hash_bucket_fast
from muster_tensorflow.library.ops.text._strings import to_hash_bucket_strong as to_hash_bucket_strong
from muster_tensorflow.library.ops.text._strings import to_number as to_number
from muster_tensorflow.library.ops.text._strings import upper as upper
from muster_tensorflow.library.ops.text._unicode import unicode_decode as unicode_decode
from muster_tensorflow.library.ops.text._unicode import (
    unicode_decode_with_offsets as unicode_decode_with_offsets,
)
from muster_tensorflow.library.ops.text._unicode import unicode_encode as unicode_encode
from muster_tensorflow.library.ops.text._unicode import unicode_script as unicode_script
from muster_tensorflow.library.ops.text._unicode import unicode_split as unicode_split
from muster_tensorflow.library.ops.text._unicode import (
    unicode_split_with_offsets as unicode_split_with_offsets,
)
from muster_tensorflow.library.ops.text._unicode import unicode_transcode as unicode_transcode
