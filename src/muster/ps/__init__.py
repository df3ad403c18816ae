"""Parameter servers: what holds the values of variables, updates them, and brings them to workers."""

from muster.ps._client import Client as Client
from muster.ps._client import Dial as Dial
from muster.ps._flat_layout import FlatLayout as FlatLayout
from muster.ps._machine import Machine as Machine
from muster.ps._messages import PURPOSE as PURPOSE
from muster.ps._messages import Statistics as Statistics
from muster.ps._partitioners import FixedShardsPartitioner as FixedShardsPartitioner
from muster.ps._partitioners import MaxSizePartitioner as MaxSizePartitioner
from muster.ps._partitioners import MinSizePartitioner as MinSizePartitioner
from muster.ps._partitioners import Partitioner as Partitioner
from muster.ps._partitioners import require_positive as require_positive
from muster.ps._placement import ServedVariable as ServedVariable
from muster.ps._placement import Shard as Shard
from muster.ps._placement import place as place
from muster.ps._plan import ArraySpec as ArraySpec
from muster.ps._plan import Plan as Plan
from muster.ps._recovery import no_snapshot as no_snapshot
from muster.ps._saver import Saver as Saver
from muster.ps._servers import Servers as Servers
from muster.ps._service import Service as Service
from muster.ps._snapshots import Snapshots as Snapshots
