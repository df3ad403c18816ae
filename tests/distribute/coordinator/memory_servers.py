"""Parameter servers in memory: what closures ask of them, with variables that are put there by hand."""

import contextlib
import threading

import jax
import jax.export
import numpy as np

from muster.cluster import Task
from muster.program.variables import ByIdentity
from muster.ps.store import PURPOSE, StoreClient, StoredArray
from muster.ps.updates import versions


class Rows:
    """Rows of a variable on a server."""

    def __init__(self, array, start, stop):
        self.array, self.start, self.stop = array, start, stop


class Variables:
    """Variables that are put on servers by hand: what a strategy has as its storage.

    Args:
        servers: The number of servers.
    """

    def __init__(self, servers):
        self.assigned = 0
        self.servers = servers
        self._rows = ByIdentity()

    def add(self, variable, *spans):
        """Take a variable, whole on server 0, or rows of it: (server, start, stop) each."""
        value, rows = np.asarray(variable.value), []
        for server, start, stop in spans or [(0, 0, None)]:
            part = value if stop is None else value[start:stop]
            name = variable.path if stop is None else f"{variable.path}[{start}:{stop}]"
            rows.append(Rows(StoredArray(name, server, part.shape, part.dtype.name), start, stop or 1))
            self.put(rows[-1].array, part)
        self._rows[variable] = rows
        self.assigned += 1
        return variable

    def rows_of(self, variable):
        return self._rows.get(variable, ())

    @contextlib.contextmanager
    def store(self):
        yield self


class RealServers(Variables):
    """Puts variables on real servers.

    Args:
        cluster: The tasks of the job.
        links: How to reach them.
    """

    def __init__(self, cluster, links):
        tasks = [Task("ps", index) for index in cluster.task_indices("ps")]
        super().__init__(len(tasks))
        dials = [(links.name_of(task), links.dial_to(task, PURPOSE)) for task in tasks]
        self.client = StoreClient(dials, links.run, versions(), starts=True)

    def put(self, array, value):
        self.client.create([(array, value)])

    def value(self, variable):
        """The value of a variable as servers have it."""
        return np.concatenate(
            [np.atleast_1d(each) for each in self.client.read([r.array.key for r in self.rows_of(variable)])]
        )

    def register(self, functions):
        self.client.register(functions)


class MemoryServers(Variables):
    """Holds variables, and applies what closures push, each closure once a server.

    Coordinators register functions with it, and workers pull from it and push to it.

    Attributes:
        values: The value of each array, by server and name.
        pulls: How many times a function was pulled.
        applied: The numbers of the closures that each server has applied, and may be asked to apply again.
        repeated: How many pushes were of a closure that had been applied.
    """

    def __init__(self, servers=1):
        super().__init__(servers)
        self.values = [{} for _ in range(servers)]
        self.applied = [set() for _ in range(servers)]
        self.pulls = self.repeated = 0
        self._functions = [{} for _ in range(servers)]
        self._lock = threading.RLock()

    def put(self, array, value):
        self.values[array.server][array.name] = value.copy()

    def value(self, variable):
        """The value of a variable as servers have it."""
        with self._lock:
            parts = [self.values[r.array.server][r.array.name] for r in self._rows.get(variable, ())]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def assign(self, variable, value):
        """Set a variable that is whole."""
        (rows,) = self._rows.get(variable, ())
        with self._lock:
            self.values[rows.array.server][rows.array.name] = np.asarray(value, rows.array.dtype)
            self.assigned += 1

    def register(self, functions):
        assert len(functions) == self.servers
        for known, function in zip(self._functions, functions, strict=True):
            if function is not None and function.fingerprint not in known:
                update = jax.export.deserialize(bytearray(function.update)) if function.update else None
                known[function.fingerprint] = function, update and jax.jit(update.call)

    def connect(self, origin):
        """Return the connections of a worker."""
        return self

    def close(self):
        pass

    def pull(self, function):
        with self._lock:
            self.pulls += 1
            return [self._taken(server, function) for server in range(self.servers)]

    def apply(self, function, closure, watermark, pushed):
        with self._lock:
            for server, arrays in enumerate(pushed):
                assert closure >= watermark
                self.applied[server] = {number for number in self.applied[server] if number >= watermark}
                if closure in self.applied[server]:
                    self.repeated += 1
                    continue
                self.applied[server].add(closure)
                described, update = self._functions[server].get(function, (None, None))
                if update is None:
                    assert not arrays
                    continue
                values = self.values[server]
                specs = [(each.shape, each.dtype) for each in described.pushed]
                assert specs == [(array.shape, array.dtype.name) for array in arrays]
                new = update(*(values[name] for name in described.reads), *arrays)
                values.update(zip(described.updates, map(np.asarray, new), strict=True))
            return [self._taken(server, function) for server in range(self.servers)]

    def _taken(self, server, function):
        described, _ = self._functions[server].get(function, (None, None))
        return [] if described is None else [self.values[server][name] for name in described.takes]
