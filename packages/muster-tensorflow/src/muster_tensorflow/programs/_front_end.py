"""Show programs for TensorFlow the values of muster's datasets and steps as TensorFlow shows its own."""

from muster.extend import Frontend, install
from muster_tensorflow.library.ops._eager_values import (
    shown_argument,
    shown_batch,
    shown_elements,
    shown_part,
)
from muster_tensorflow.library.ops._fed_arrays import source_of
from muster_tensorflow.library.ops._one_shot import called_for_input
from muster_tensorflow.programs._row_rules import row_rules
from muster_tensorflow.programs.v1.estimator._other_version import warn_of_other_version
from muster_tensorflow.programs.v1.input._feeding import let_hooks_feed
from muster_tensorflow.programs.v2._function import UNCOMPILED_AFTER, with_branches


def install_front_end(*folders: str) -> None:
    """Install the front end of this package, once.

    Args:
        *folders: The folders of the package: no line in them is one of the user's.
    """
    install(
        Frontend(
            elements=shown_elements,
            argument=shown_argument,
            batch=shown_batch,
            part=shown_part,
            mend=with_branches,
            uncompiled_after=UNCOMPILED_AFTER,
            source=source_of,
            input=called_for_input,
            before_reading=let_hooks_feed,
            before_canned=warn_of_other_version,
            rules=row_rules(),
            folders=folders,
        )
    )
