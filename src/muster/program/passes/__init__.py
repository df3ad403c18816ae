"""Rewrite jaxprs, and cut them into parts."""

from muster.program.passes._jaxprs import Atom as Atom
from muster.program.passes._jaxprs import Equation as Equation
from muster.program.passes._jaxprs import Values as Values
from muster.program.passes._jaxprs import body_contains as body_contains
from muster.program.passes._jaxprs import contains as contains
from muster.program.passes._jaxprs import function_of as function_of
from muster.program.passes._jaxprs import levels_of as levels_of
from muster.program.passes._jaxprs import needed_equations as needed_equations
from muster.program.passes._jaxprs import outputs_of as outputs_of
from muster.program.passes._jaxprs import type_of as type_of
from muster.program.passes._jaxprs import variables_of as variables_of
from muster.program.passes._jaxprs import without as without
from muster.program.passes._loops import with_wide_products as with_wide_products
from muster.program.passes._parts import Part as Part
from muster.program.passes._parts import all_reduce_on_host as all_reduce_on_host
from muster.program.passes._parts import split_at_all_reduces as split_at_all_reduces
from muster.program.passes._row_updates import with_row_updates as with_row_updates
