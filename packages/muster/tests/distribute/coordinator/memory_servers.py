"""Parameter servers in memory: what closures ask of them, with variables that are put there by hand."""

import collections
import contextlib
import threading

import jax
import jax.export
import numpy as np

from muster.cluster import Task
from muster.program.variables import ByIdentity
from muster.ps import PURPOSE, Servers
from muster.ps.contents import StoredArray
from muster.ps.contents.updates import versions


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

    def columns_of(self, variable):
        return ()

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
        self.client = Servers.of_program(dials, links.run, versions(), starts=True)

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
        rows: How many rows of tables were pulled, and pushed.
        applied: The numbers of the closures that each server has applied, and may be asked to apply again.
        repeated: How many pushes were of a closure that had been applied.
    """

    def __init__(self, servers=1):
        super().__init__(servers)
        self.values = [{} for _ in range(servers)]
        self.applied = [set() for _ in range(servers)]
        self.pulls = self.repeated = 0
        self.rows = collections.Counter()
        self._functions = [{} for _ in range(servers)]
        self._tables = {}
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
                known[function.fingerprint] = function, _called(function.update)
                self._tables.update({use: _called(use.update) for use in function.tables})

    def connect(self, origin):
        """Return the connections of a worker."""
        return self

    def close(self):
        pass

    @property
    def count(self):
        return self.servers

    def pull(self, function, ids=()):
        with self._lock:
            self.pulls += 1
            return [
                [
                    *self._taken(server, function),
                    *self._rows_taken(server, function, ids[server] if ids else ()),
                ]
                for server in range(self.servers)
            ]

    def apply(self, function, closure, watermark, pushed, rows=()):
        with self._lock:
            for server, arrays in enumerate(pushed):
                assert closure >= watermark
                self.applied[server] = {number for number in self.applied[server] if number >= watermark}
                if closure in self.applied[server]:
                    self.repeated += 1
                    continue
                self.applied[server].add(closure)
                described, update = self._functions[server].get(function, (None, None))
                if described is None:
                    assert not arrays
                    continue
                values, arrays = self.values[server], list(arrays)
                own, of_tables = arrays[: len(described.pushed)], arrays[len(described.pushed) :]
                for use, (ids, pushes) in zip(described.tables, rows[server] if rows else (), strict=True):
                    brought = [of_tables.pop(0) for _ in use.pushed]
                    self._update_rows(values, use, ids, pushes, brought)
                assert not of_tables
                specs = [(each.shape, each.dtype) for each in described.pushed]
                assert specs == [(array.shape, array.dtype.name) for array in own]
                if update is not None:
                    new = update(*(values[name] for name in described.reads), *own)
                    values.update(zip(described.updates, map(np.asarray, new), strict=True))
            return [self._taken(server, function) for server in range(self.servers)]

    def _rows_taken(self, server, function, ids):
        tables = self._functions[server][function][0].tables if ids else ()
        self.rows["pulled"] += sum(map(len, ids))
        return [
            self.values[server][use.columns[0]][each - use.start]
            for use, each in zip(tables, ids, strict=True)
        ]

    def _update_rows(self, values, use, ids, pushes, brought):
        self.rows["pushed"] += sum(map(len, pushes))
        specs = [((len(ids), *each.shape), each.dtype) for each in use.row_pushes]
        assert specs == [(each.shape, each.dtype.name) for each in pushes]
        if not use.update:
            return
        assert [each.shape for each in use.pushed] == [each.shape for each in brought]
        places = ids - use.start
        assert (np.diff(places) > 0).all()
        taken = [values[name][places] for name in use.columns]
        made = self._tables[use](*taken, *pushes, *(values[name] for name in use.reads), *brought)
        for name, new in zip(use.columns, made, strict=True):
            values[name] = values[name].copy()
            values[name][places] = new

    def _taken(self, server, function):
        described, _ = self._functions[server].get(function, (None, None))
        return [] if described is None else [self.values[server][name] for name in described.takes]


def _called(update):
    """Return an update as a function."""
    return jax.jit(jax.export.deserialize(bytearray(update)).call) if update else None
