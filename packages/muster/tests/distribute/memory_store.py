"""Parameter servers in memory: what a program's variables ask of real ones, and how often."""

import numpy as np

from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import ParameterServerStrategy
from muster.distribute.servers._stored_variables import StoredVariables
from muster.ps import ArraySpec
from muster.ps.contents.updates import JaxDevice


class MemoryStore:
    """Holds arrays by server and name.

    Attributes:
        values: The value of each array.
        servers: The server of each array that there has been, by its name.
        asked: The names of the methods that were called, in order.
        largest: The size of the largest array that one call brought or took, in bytes.
    """

    def __init__(self):
        self.values, self.servers, self.asked, self.largest = {}, {}, [], 0

    def create(self, variables):
        self._note("create", [value for _, value in variables])
        for array, value in variables:
            assert array.name not in self.servers, "a name is used again"
            assert (value.shape, value.dtype.name) == (array.shape, array.dtype)
            self.values[array.key], self.servers[array.name] = value.copy(), array.server

    def read(self, names):
        found = [self.values[name].copy() for name in names]
        self._note("read", found)
        return found

    def assign(self, values):
        self._note("assign", values.values())
        for name, value in values.items():
            before = self.values[name]
            assert (value.shape, value.dtype) == (before.shape, before.dtype)
            self.values[name] = value.copy()

    def add(self, values):
        self._note("add", values.values())
        for name, value in values.items():
            before = self.values[name]
            assert (value.shape, value.dtype) == (before.shape, before.dtype)
            self.values[name] = np.asarray(before + value)

    def reserve(self, arrays):
        self._note("reserve", [])
        for array in arrays:
            self.servers[array.name] = array.server
            self.values[array.key] = np.full(array.shape, np.nan, array.dtype)

    def make(self, name, function, first):
        self._note("make", [])
        array = self.values[name]
        spec = ArraySpec(name.name, array.shape, array.dtype.name)
        array[...] = np.concatenate([*JaxDevice().make(function, spec, first)])

    def read_rows(self, name, start, count):
        self._note("read_rows", [found := self.values[name][start : start + count]])
        return found

    def assign_rows(self, name, start, rows):
        self._note("assign_rows", [rows])
        self.values[name][start : start + len(rows)] = rows

    def delete(self, names):
        self._note("delete", [])
        for name in names:
            del self.values[name]

    def _note(self, method, arrays):
        self.asked.append(method)
        self.largest = max([self.largest, *(array.nbytes for array in arrays)])


def resolver(servers=2, workers=2):
    """Return the resolver of a job whose coordinator is in no cluster."""
    tasks = {"worker": [f"w{i}:1" for i in range(workers)], "ps": [f"p{i}:1" for i in range(servers)]}
    return SimpleClusterResolver(ClusterSpec(tasks))


def with_memory(servers=2, partitioner=None):
    """Return a strategy with servers in memory, and these."""
    strategy = ParameterServerStrategy(resolver(servers), partitioner)
    store = MemoryStore()
    strategy.placement.storage = StoredVariables(lambda: store, servers, partitioner)
    return strategy, store
