"""``tf.strings``, on the host."""

from muster.compat.ops._strings import as_string as as_string
from muster.compat.ops._strings import join as join
from muster.compat.ops._strings import length as length
from muster.compat.ops._strings import lower as lower
from muster.compat.ops._strings import regex_full_match as regex_full_match
from muster.compat.ops._strings import regex_replace as regex_replace
from muster.compat.ops._strings import split as split
from muster.compat.ops._strings import strip as strip
from muster.compat.ops._strings import substr as substr
from muster.compat.ops._strings import to_number as to_number
from muster.compat.ops._strings import upper as upper
