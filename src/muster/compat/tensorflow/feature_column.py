"""``tf.feature_column``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing as _missing
from muster.feature_column import make_parse_example_spec as make_parse_example_spec
from muster.feature_column import numeric_column as numeric_column

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.feature_column", name)
