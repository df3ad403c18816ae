"""A worker or parameter server of a coordinator: it serves until the job has ended."""

import os

from muster.cluster import TFConfigClusterResolver
from muster.distribute import Server

resolver = TFConfigClusterResolver()
Server(
    resolver.cluster_spec(),
    resolver.task_type,
    resolver.task_id,
    snapshot_dir=os.environ.get("SNAPSHOTS"),
    snapshot_updates=1,
).join()
