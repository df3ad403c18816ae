"""Variables on parameter servers, read and assigned by the program that created them."""

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from muster._row_ids import LEAST_TABLE_BYTES
from muster.checkpoint.objects import unique_path
from muster.distribute.engine._hashed_columns import HashedInitializer
from muster.distribute.engine._stored_tables import nbytes_of
from muster.distribute.servers._batched_access import BatchedAccess
from muster.distribute.servers._hashed_tables import ProgramHashedTables, TableColumn
from muster.distribute.servers._stored_arrays import (
    assign_arrays,
    comes_in_pieces,
    pieces,
    read_arrays,
    require_room,
)
from muster.program.variables import (
    ByIdentity,
    InitialValue,
    Storage,
    VariableShard,
    initial_rows,
    like_value_of,
    may_be_split,
    reference_of_new,
)
from muster.ps import PartRequests, PartSavers, SavePart, ServedShard, ServedVariable, Servers, place
from muster.ps.contents import StoredArray

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RowsOnServer:
    """Rows of a variable on a server.

    Attributes:
        array: What the server holds.
        start: The first row; 0 of a scalar.
        stop: The row after the last; 1 of a scalar.
    """

    array: StoredArray
    start: int
    stop: int


class StoredVariables(Storage):
    """Keeps the values of variables on parameter servers.

    The rows of a variable are placed when it is created: each run of rows that the partitioner makes goes to
    the server that holds the fewest bytes. Slots of an optimizer go where their weight is. Servers hear of
    embeddings and their slots, which are known by their names, that rows of them will be looked up.

    Args:
        connect: Returns the servers; called when the first variable is created.
        servers: The number of servers.
        partitioner: Says from a variable's shape and dtype how many shards there are along each axis; None
            splits nothing.
        savers: Lets the servers write into checkpoints; None if they cannot.
        origin: The random id by which they know this program.

    Attributes:
        servers: The number of servers.
        assigned: How often values were set or created here. Workers that have read values before the last
            time have old ones.
    """

    def __init__(
        self,
        connect: Callable[[], Servers],
        servers: int,
        partitioner: Callable[[tuple[int, ...], Any], Sequence[int]] | None = None,
        savers: PartSavers | None = None,
        origin: str = "",
    ) -> None:
        self.assigned = 0
        self.servers = servers
        self._savers, self._origin = savers, origin
        self._connect = connect
        self._store: Servers | None = None
        self._closed = False
        self._partitioner = partitioner
        self._held = [0] * servers
        self._names: set[str] = set()
        self._rows: ByIdentity[tuple[RowsOnServer, ...]] = ByIdentity()
        self._hashed = ProgramHashedTables(servers)
        self._gone: deque[tuple[RowsOnServer, ...]] = deque()  # of variables that exist no more
        self._lock = threading.RLock()
        self._of_thread = _OfThread()

    @property
    def can_save(self) -> bool:
        """True if the servers can write into checkpoints."""
        return self._savers is not None

    def save(
        self, folder: str, token: str, parts: Sequence[tuple[str, Iterable[str]]]
    ) -> PartRequests | None:
        """Let the servers write values into a checkpoint; None if one does not see its folder.

        Args:
            folder: The folder.
            token: The name of a file in it.
            parts: The name of the file that each server writes, and of the arrays in it.

        Raises:
            CheckpointError: One cannot be reached, or refuses; none writes.
        """
        if self._savers is None:
            return None
        return self._savers.begin(
            [
                SavePart(arrays=tuple(names), origin=self._origin, folder=folder, token=token, file=file)
                for file, names in parts
            ]
        )

    @contextlib.contextmanager
    def store(self) -> Iterator[Servers]:
        """Lend the servers to this thread.

        Raises:
            RuntimeError: The servers were left.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError(
                    "The strategy of these variables was closed, and their servers with it. Save what is "
                    "needed of them before."
                )
            if self._store is None:
                self._store = self._connect()
            yield self._store

    def close(self) -> None:
        """Leave the servers, if they were connected to; variables are there no more."""
        with self._lock:
            store, self._store, self._closed = self._store, None, True
        if store is not None:
            store.close()

    def rows_of(self, variable: Any) -> tuple[RowsOnServer, ...]:
        """Return where the rows of a variable are, in order; nothing if they are not on these servers.

        Of a hashed table and its slots these are parts, each with its number as ``start``, and without rows.
        """
        with self._lock:
            if tables := self._hashed.to_create(variable):
                with self.store() as store:
                    store.create_hashed(tables)
        return self._rows.get(variable, ())

    def columns_of(self, variable: Any) -> tuple[Any, ...]:
        """Return the variable of a hashed table, and those of its slots, in order; nothing for others."""
        return self._hashed.columns_of(variable)

    def hashed_column_of(self, variable: Any) -> TableColumn | None:
        """Return what a variable stands for of a hashed table; None if it is of none."""
        return self._hashed.column_of(variable)

    def shards_of(self, variable: Any) -> tuple[VariableShard, ...]:
        """Return the shards of a variable that lies on several of these servers; nothing for others."""
        placed = self._rows.get(variable, ())
        if len(placed) < 2 or self._hashed.column_of(variable) is not None:
            return ()
        if "_shards" not in vars(variable):
            variable._shards = tuple(
                VariableShard(variable, self, number, rows.start, rows.stop, rows.array.server)
                for number, rows in enumerate(placed)
            )
        return variable._shards  # type: ignore[no-any-return]

    def pull_rows(self, variable: Any, start: int, stop: int) -> Array:
        """Return the rows of a shard of a variable."""
        if (together := self._of_thread.access) is not None:
            return np.asarray(together.read(variable))[start:stop]
        rows = self._rows_at(variable, start, stop)
        require_room(variable.path, nbytes_of(rows.array))
        with self.store() as store:
            return read_arrays(store, [rows.array])[0]

    def push_rows(self, variable: Any, start: int, stop: int, rows: Array) -> None:
        """Assign the rows of a shard of a variable."""
        if (together := self._of_thread.access) is not None:
            together.write(variable, together.read(variable).at[start:stop].set(rows))
            return
        array = self._rows_at(variable, start, stop).array
        with self.store() as store:
            assign_arrays(store, [(array, rows)])
            self.assigned += 1

    def _rows_at(self, variable: Any, start: int, stop: int) -> RowsOnServer:
        return next(each for each in self._rows.get(variable, ()) if (each.start, each.stop) == (start, stop))

    @contextlib.contextmanager
    def restoring(self, table: Any) -> Iterator[Servers]:
        """Lend the servers to this thread to assign the rows of a hashed table, which they have then."""
        self.rows_of(table)
        with self.store() as store:
            yield store
            self.assigned += 1

    def split(self, name: str, shape: tuple[int, ...], dtype: str) -> list[tuple[int, int]]:
        """Return the first row of each shard that a variable is divided into, and the row after its last.

        Raises:
            ValueError: The partitioner gives something else than a number of shards along the first axis.
        """
        return [(shard.start, shard.stop) for shard in self._shards(name, shape, dtype)]

    def create(self, variable: Any, initial: Any) -> None:
        like = like_value_of(variable)
        if isinstance(initial, HashedInitializer) or self._hashed.are_beside(reference_of_new(), like):
            self._create_hashed(variable, like, initial)
            return
        compute = initial_rows(initial, like.shape, like.dtype.name)
        value = InitialValue(initial, like.shape, like.dtype.name)
        with self.store() as store:
            self._forget(store)
            placed = self._placed(variable, like)
            for rows in placed:  # one after the other: all of them may not fit this process
                if comes_in_pieces(rows.array) and value.function is not None:
                    store.reserve([rows.array])
                    store.make(rows.array.key, value.function, rows.start)
                elif comes_in_pieces(rows.array):
                    store.reserve([rows.array])
                    for begin, end in pieces(rows.array):
                        new = compute(rows.start + begin, rows.start + end)
                        store.assign_rows(rows.array.key, begin, new)
                else:
                    store.create([(rows.array, compute(rows.start, rows.stop))])
                self._held[rows.array.server] += nbytes_of(rows.array)
            self.assigned += 1
        self._rows[variable] = placed
        weakref.finalize(variable, self._gone.append, placed).atexit = False

    def read(self, variable: Any) -> jax.Array:
        together = self._of_thread.access
        return self.pull([variable])[0] if together is None else together.read(variable)

    def write(self, variable: Any, value: Any) -> None:
        together = self._of_thread.access
        if together is None:
            self.push([(variable, value)])
        else:
            together.write(variable, value)

    def add(self, variable: Any, value: Any) -> None:
        together = self._of_thread.access
        if together is None:
            self.push_added([(variable, value)])
        else:
            together.add(variable, value)

    @contextlib.contextmanager
    def together(self, variables: Sequence[Any]) -> Iterator[None]:
        together = self._of_thread.access
        if together is not None:
            together.expect(variables)
            yield
            return
        together = BatchedAccess(self, variables)
        self._of_thread.access = together
        try:
            yield
        finally:
            self._of_thread.access = None
            together.flush()

    def pull(self, variables: Sequence[Any]) -> list[jax.Array]:
        """Return the values of variables, in one message to each server but for large tables.

        Raises:
            NotImplementedError: One is a hashed table.
            ParameterServerError: One is larger than this process's memory.
        """
        self._refuse_hashed(variables)
        placed = [self._rows.get(variable, ()) for variable in variables]
        for variable in variables:
            require_room(variable.path, nbytes_of(like_value_of(variable)))
        with self.store() as store:
            arrays = iter(read_arrays(store, [rows.array for each in placed for rows in each]))
        values = []
        for each in placed:
            parts = [next(arrays) for _ in each]
            values.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        with jax.core.eval_context():  # also while something is traced
            return [jax.device_put(value) for value in values]

    def push(self, values: Sequence[tuple[Any, Any]]) -> None:
        """Set variables to values, in one message to each server but for large tables."""
        arrays = self._arrays(values)
        with self.store() as store:
            assign_arrays(store, arrays)
            self.assigned += 1

    def push_added(self, values: Sequence[tuple[Any, Any]]) -> None:
        """Add values to variables, in one message to each server."""
        arrays = self._arrays(values)
        with self.store() as store:
            store.add({array.key: value for array, value in arrays})
            self.assigned += 1

    def _arrays(self, values: Sequence[tuple[Any, Any]]) -> list[tuple[StoredArray, Array]]:
        """Return values of variables with the arrays on servers that have their rows."""
        self._refuse_hashed(variable for variable, _ in values)
        arrays: list[tuple[StoredArray, Array]] = []
        for variable, value in values:
            placed, value = self._rows.get(variable, ()), np.asarray(value)
            for rows in placed:
                arrays.append((rows.array, value if len(placed) == 1 else value[rows.start : rows.stop]))
        return arrays

    def _create_hashed(self, variable: Any, like: Any, initial: Any) -> None:
        """Take the variable of a hashed table, or of a slot of one."""
        path = unique_path(variable.path, self._names)
        self._names.add(path)
        is_table = isinstance(initial, HashedInitializer)
        if is_table:
            self._hashed.add(variable, path, like, initial)
        else:
            self._hashed.add_slot(reference_of_new(), variable, path, like, initial)
        name = self._hashed.name_of(variable) or path
        shape = (0, *like.shape[1:])
        self._rows[variable] = placed = tuple(
            RowsOnServer(StoredArray(name, server, shape, like.dtype.name, by_rows=True), server, server + 1)
            for server in range(len(self._held))
        )
        if is_table:
            weakref.finalize(variable, self._gone.append, placed).atexit = False

    def _refuse_hashed(self, variables: Iterable[Any]) -> None:
        """Refuse to read or assign hashed tables, of whose rows nobody has all.

        Raises:
            NotImplementedError: There is one among some variables.
        """
        for variable in variables:
            if (name := self._hashed.name_of(variable)) is not None:
                raise NotImplementedError(
                    f"{variable.path}: the rows of the HashEmbedding {name.split('/')[-2:][0]!r} lie on "
                    "parameter servers, by ids, and cannot be read or assigned as an array, by get_weights, "
                    "save_weights and the like. Save and restore the model by tf.train.Checkpoint, or by "
                    "BackupAndRestore in fit; read rows of such a checkpoint by "
                    "muster.checkpoint.read_checkpoint."
                )

    def _placed(self, variable: Any, like: jax.ShapeDtypeStruct) -> tuple[RowsOnServer, ...]:
        """Return where the rows of a new variable go."""
        path = unique_path(variable.path, self._names)
        self._names.add(path)
        reference = reference_of_new()
        beside = self._rows.get(reference, ())
        if beside and tuple(reference.shape) == like.shape:
            spans = [(each.start, each.stop, each.array.server) for each in beside]
        else:
            shards = self._shards(path, like.shape, like.dtype.name)
            spans = [(shard.start, shard.stop, shard.server) for shard in shards]

        def rows(start: int, stop: int, server: int) -> RowsOnServer:
            name, shape = path, like.shape
            if len(spans) > 1:
                name, shape = f"{path}[{start}:{stop}]", (stop - start, *shape[1:])
            by_rows = "embedding" in path.rpartition("/")[2] and nbytes_of(like) >= LEAST_TABLE_BYTES
            return RowsOnServer(StoredArray(name, server, shape, like.dtype.name, by_rows), start, stop)

        return tuple(rows(*span) for span in spans)

    def _shards(self, name: str, shape: tuple[int, ...], dtype: str) -> list[ServedShard]:
        variable = ServedVariable(name=name, shape=shape, dtype=dtype, splittable=may_be_split())
        return place([variable], len(self._held), self._partitioner, self._held)

    def _forget(self, store: Servers) -> None:
        """Delete the values of variables that exist no more."""
        names = []
        while self._gone:
            for rows in self._gone.popleft():
                names.append(rows.array.key)
                self._held[rows.array.server] -= nbytes_of(rows.array)
        if names:
            store.delete(names)


class _OfThread(threading.local):
    """Holds, for each thread, what it reads and writes together.

    Attributes:
        access: The open `StoredVariables.together`; None for none.
    """

    access: BatchedAccess | None = None
