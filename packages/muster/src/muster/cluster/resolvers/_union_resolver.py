"""The cluster resolver that joins other resolvers."""

from collections.abc import Mapping

from muster._errors import ClusterError, ClusterTypeError, DuplicateTaskError
from muster.cluster._cluster_resolver import ClusterResolver
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster.resolvers._task_resolver import with_layer


class UnionResolver(ClusterResolver):
    """Joins the clusters of several resolvers. The first resolver says which task this is.

    If several resolvers have the same job, their lists of addresses are concatenated, unless one of them is
    sparse: then all tasks of the job keep their indices.

    Follows ``tf.distribute.cluster_resolver.UnionResolver``
    (tensorflow/python/distribute/cluster_resolver/cluster_resolver.py), but an address
    that is repeated in a job is the same task; 0 is a ``task_id`` like any other; and every address of
    `master` has the protocol `rpc_layer`.

    Args:
        resolvers: At least one.
        task_type: The type of this task; overrides the first resolver.
        task_id: Its index among the tasks of that type; overrides the first resolver.
        rpc_layer: The protocol in the address of a master; overrides the first resolver.

    Raises:
        ClusterError: There is no resolver.
        ClusterTypeError: One of them is something else.
    """

    def __init__(
        self,
        *resolvers: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not resolvers:
            raise ClusterError("At least one ClusterResolver is required.")
        for resolver in resolvers:
            if not isinstance(resolver, ClusterResolver):
                raise ClusterTypeError(
                    f"All arguments must be a sub-class of `ClusterResolver.` Given: {resolver!r}."
                )
        self._resolvers = resolvers
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer

    @property
    def task_type(self) -> str | None:
        """The type of this task; setting None restores the first resolver's."""
        return self._resolvers[0].task_type if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, value: str | None) -> None:
        self._task_type = value

    @property
    def task_id(self) -> int | None:
        """The index of this task; setting None restores the first resolver's."""
        return self._resolvers[0].task_id if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, value: int | None) -> None:
        self._task_id = value

    @property
    def rpc_layer(self) -> str | None:
        """The protocol in the address of a master; setting None restores the first resolver's."""
        return self._resolvers[0].rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, value: str | None) -> None:
        self._rpc_layer = value

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of all tasks.

        Raises:
            DuplicateTaskError: Two resolvers give one task of a sparse job different addresses.
        """
        parts = [resolver.cluster_spec() for resolver in self._resolvers]
        names = dict.fromkeys(job for part in parts for job in part.jobs)  # in order, without duplicates
        return ClusterSpec({job: _merged(job, [part for part in parts if job in part.jobs]) for job in names})

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task if its type and index are passed, else the first resolver's master.

        Raises:
            ClusterError: There is no such task.
        """
        rpc_layer = rpc_layer or self.rpc_layer
        if task_type is not None and task_id is not None:
            return with_layer(self.cluster_spec().task_address(task_type, task_id), rpc_layer)
        return self._resolvers[0].master(task_type, task_id, rpc_layer)

    @property
    def environment(self) -> str | None:
        return self._resolvers[0].environment

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None
    ) -> Mapping[str, int] | int:
        return self._resolvers[0].num_accelerators(task_type, task_id)


def _merged(job: str, parts: list[ClusterSpec]) -> list[str] | dict[int, str]:
    """Return the addresses of a job that all parts have."""
    lists = [part.job_tasks(job) for part in parts]
    if not any(None in tasks for tasks in lists):
        return list(dict.fromkeys(address for tasks in lists for address in tasks if address is not None))
    merged: dict[int, str] = {}
    for part in parts:
        more = {index: part.task_address(job, index) for index in part.task_indices(job)}
        clash = {index for index in more.keys() & merged.keys() if more[index] != merged[index]}
        if clash:
            raise DuplicateTaskError(
                f"Duplicate keys detected when merging two ClusterSpecs: {clash}. They are indices of tasks "
                f"of the job {job!r}: {merged} and {more}."
            )
        merged |= more
    return merged
