"""`muster.function`: traces user code once and calls it compiled."""

from muster.distribute.functions._function import Function as Function
from muster.distribute.functions._function import function as function
from muster.distribute.functions._traced_calls import check_agreement as check_agreement
from muster.distribute.functions._traced_calls import gather_traced as gather_traced
from muster.distribute.functions._traced_calls import local_traced as local_traced
from muster.distribute.functions._traced_calls import reduce_traced as reduce_traced
from muster.distribute.functions._traced_calls import require_cross_replica as require_cross_replica
from muster.distribute.functions._traced_calls import require_values as require_values
from muster.distribute.functions._traced_calls import run_traced_code as run_traced_code
