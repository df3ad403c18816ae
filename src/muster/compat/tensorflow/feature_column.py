"""``tf.feature_column``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.feature_column import make_parse_example_spec as make_parse_example_spec
from muster.feature_column import numeric_column as numeric_column

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.feature_column")
