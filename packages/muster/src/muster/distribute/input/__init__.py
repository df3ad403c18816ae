"""Divides datasets among workers and replicas."""

from muster.distribute.input._synchronized_batches import synchronized as synchronized
