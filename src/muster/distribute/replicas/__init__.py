"""Values per replica, and the replica context."""

from muster.distribute.replicas._random_keys import by_numbers as by_numbers
from muster.distribute.replicas._replica_context import CROSS_REPLICA as CROSS_REPLICA
from muster.distribute.replicas._replica_context import ReduceOp as ReduceOp
from muster.distribute.replicas._replica_context import ReplicaContext as ReplicaContext
from muster.distribute.replicas._replica_context import ReplicaGroup as ReplicaGroup
from muster.distribute.replicas._replica_context import current_context as current_context
from muster.distribute.replicas._replica_context import entered as entered
from muster.distribute.replicas._replica_context import gathered as gathered
from muster.distribute.replicas._replica_context import reduced as reduced
from muster.distribute.replicas._replica_context import refuse_in_program as refuse_in_program
from muster.distribute.replicas._replica_context import traced_scope as traced_scope
from muster.distribute.replicas._values import PerReplica as PerReplica
from muster.distribute.replicas._values import ValueContext as ValueContext
from muster.distribute.replicas._values import is_array as is_array
from muster.distribute.replicas._values import is_leaf as is_leaf
from muster.distribute.replicas._values import map_values as map_values
from muster.distribute.replicas._values import replicated as replicated
from muster.distribute.replicas._values import stacked as stacked
