"""Install and revert all patches of JAX, Keras, NumPy and muster, which one manifest lists.

``import muster_tensorflow`` makes the changes of the manifest in its order, since programs get arrays and
layers from JAX and Keras themselves. `undo` takes them back.
"""

from muster_tensorflow.patches._changes import ABSENT as ABSENT
from muster_tensorflow.patches._changes import Change as Change
from muster_tensorflow.patches._changes import applied as applied
from muster_tensorflow.patches._changes import change as change
from muster_tensorflow.patches._changes import change_item as change_item
from muster_tensorflow.patches._changes import remove as remove
from muster_tensorflow.patches._changes import undo as undo
from muster_tensorflow.patches._changes import wrap as wrap
from muster_tensorflow.patches._manifest import Part as Part
from muster_tensorflow.patches._manifest import apply as apply
from muster_tensorflow.patches._manifest import manifest as manifest
