"""Divides a dataset's files or elements among workers."""

from muster.data.sharding._shard_files import FileShare as FileShare
from muster.data.sharding._shard_files import shard_files as shard_files
from muster.data.sharding._share import describe_share as describe_share
from muster.data.sharding._share import user_shards as user_shards
