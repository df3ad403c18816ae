"""Rewrite jaxprs, and cut them into parts."""

from muster.program.passes._by_rows import CoupledRowsError as CoupledRowsError
from muster.program.passes._by_rows import by_rows as by_rows
from muster.program.passes._found_tables import find_lookups as find_lookups
from muster.program.passes._jaxprs import Segment as Segment
from muster.program.passes._jaxprs import all_reduce_on_host as all_reduce_on_host
from muster.program.passes._jaxprs import function_of as function_of
from muster.program.passes._jaxprs import needed_equations as needed_equations
from muster.program.passes._jaxprs import split_at_all_reduces as split_at_all_reduces
from muster.program.passes._lookups import LookupStep as LookupStep
from muster.program.passes._row_numbers import NumberedStep as NumberedStep
from muster.program.passes._row_numbers import row_numbers as row_numbers
from muster.program.passes._row_numbers import with_given_numbers as with_given_numbers
from muster.program.passes._row_values import NotByRowsError as NotByRowsError
from muster.program.passes._rows import Rows as Rows
from muster.program.passes._rows import exchanging_rows as exchanging_rows
from muster.program.passes._served import UpdatePart as UpdatePart
from muster.program.passes._served import WorkerServerSplit as WorkerServerSplit
from muster.program.passes._served import mark_pushed as mark_pushed
from muster.program.passes._served import split_at_pushes as split_at_pushes
from muster.program.passes._table_updates import with_table_updates as with_table_updates
from muster.program.passes._variants import UNLIKE_REDUCTIONS as UNLIKE_REDUCTIONS
from muster.program.passes._variants import combined as combined
