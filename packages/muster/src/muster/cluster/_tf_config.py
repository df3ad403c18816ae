"""``TF_CONFIG``: the environment variable that describes the cluster, and this process's task in it."""

import collections
import dataclasses
import difflib
import json
from collections.abc import Mapping
from typing import Any

from muster._errors import ClusterError, ClusterTypeError
from muster.cluster._cluster_resolver import ClusterResolver
from muster.cluster._cluster_spec import ClusterSpec, Task, check_index
from muster.net import same_spelling

_NAME = "TF_CONFIG"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFConfig:
    """The contents of ``TF_CONFIG``, with checked types.

    `muster.cluster.task_context` checks that the task belongs to the cluster, and that the cluster can train.
    Unknown keys are allowed. ``null`` is the same as absent.

    Args:
        cluster: All tasks; empty for a job of one process.
        task_type: The type of this task, None if absent.
        task_index: Its index among the tasks of that type, None if absent.
        environment: Free text, such as ``"cloud"``.
        rpc_layer: The protocol in the address of a master, such as ``"grpc"``.
        session_master: The address to use in place of this task's own.
        eval_session_master: The same for evaluation.
        service: Settings of a cluster manager, in its own format.
        model_dir: The directory of checkpoints and summaries.
        raw: The parsed JSON object.
    """

    cluster: ClusterSpec = ClusterSpec({})
    task_type: str | None = None
    task_index: int | None = None
    environment: str | None = None
    rpc_layer: str | None = None
    session_master: str | None = None
    eval_session_master: str | None = None
    service: Mapping[str, Any] | None = None
    model_dir: str | None = None
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> "TFConfig":
        """Parse the value of the environment variable.

        Args:
            text: A JSON object.

        Raises:
            ClusterError: It is not JSON, has a duplicate address, or describes no cluster.
            ClusterTypeError: It is not an object, or a part of it has the wrong type.
        """
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as exc:
            raise ClusterError(
                f"{_NAME} is not JSON: {exc}. Given: {text!r}. "
                "Unset it to train in one process, or give it an object with `cluster` and `task`."
            ) from exc
        if not isinstance(raw, dict):
            raise ClusterTypeError(f"{_NAME} must be a JSON object with `cluster` and `task`, given: {text}")
        task = raw.get("task", {})
        if not isinstance(task, dict):
            raise ClusterTypeError(
                f'"task" in {_NAME} must be an object with `type` and `index`, given: {task!r}'
            )
        service = raw.get("service")
        if service is not None and not isinstance(service, dict):
            raise ClusterTypeError(
                f'If "service" is set in {_NAME}, it must be a dict. Given {type(service)}: {service!r}'
            )
        _check_names(_NAME, raw, ("cluster", "task", "service", *_TEXTS))
        _check_names(f'"task" in {_NAME}', task, ("type", "index"))
        cluster = ClusterSpec(raw.get("cluster", {}))
        check_unique(cluster)
        task_type, index = task.get("type"), task.get("index")
        return cls(
            cluster=cluster,
            task_type=None if task_type is None else str(task_type),
            task_index=None if index is None else check_index(index, f'"task" in {_NAME}'),
            service=service,
            raw=raw,
            **{key: _text(raw, key) for key in _TEXTS},
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "TFConfig":
        """Read ``TF_CONFIG`` from an environment; absent is the same as ``{}``. Raises as `parse` does."""
        return cls.parse(environ.get(_NAME, "{}"))

    @classmethod
    def from_resolver(cls, resolver: ClusterResolver) -> "TFConfig":
        """Return the cluster and the task that a resolver has found.

        Args:
            resolver: The resolver. Its cluster is read before its task, which some learn only then.
        """
        return cls(
            cluster=resolver.cluster_spec(),
            task_type=resolver.task_type,
            task_index=resolver.task_id,
            rpc_layer=resolver.rpc_layer,
        )

    @property
    def task(self) -> Task:
        """This task.

        Raises:
            ClusterError: Its type or index is absent.
        """
        if not self.task_type or self.task_index is None:
            raise ClusterError(
                f'{_NAME} does not say which task this is: "task" has the type {self.task_type!r} '
                f"and the index {self.task_index!r}. Set both, such as "
                '"task": {"type": "worker", "index": 0}, or in the resolver that takes its place.'
            )
        return Task(self.task_type, self.task_index)

    def to_json(self) -> str:
        """Return the text that `parse` reads back, without fields that are None."""
        content: dict[str, Any] = {"cluster": self.cluster.as_dict()}
        task = {"type": self.task_type, "index": self.task_index}
        content["task"] = {key: value for key, value in task.items() if value is not None}
        content |= {key: getattr(self, key) for key in (*_TEXTS, "service")}
        return json.dumps({key: value for key, value in content.items() if value is not None})


_TEXTS = ("environment", "rpc_layer", "session_master", "eval_session_master", "model_dir")


def _text(raw: Mapping[str, Any], key: str) -> str | None:
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ClusterTypeError(f'"{key}" in {_NAME} must be text, given: {value!r}')


def _check_names(where: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise ClusterError for a key that is a misspelt one of those known. Others are allowed."""
    for key in given.keys() - set(known):
        meant = difflib.get_close_matches(key.lower(), [name for name in known if name not in given], 1, 0.75)
        if meant:
            raise ClusterError(f"{where} has no {meant[0]!r}, but {key!r}. Rename that to {meant[0]!r}.")


def check_unique(cluster: ClusterSpec) -> None:
    """Raise ClusterError if two tasks have one address. TensorFlow does not check, and the job hangs."""
    tasks = collections.defaultdict(list)
    for job in cluster.jobs:
        for index in cluster.task_indices(job):
            address = cluster.task_address(job, index)
            tasks[same_spelling(address)].append((str(Task(job, index)), address))
    for each in tasks.values():
        if len(each) > 1:
            addresses = " and ".join(dict.fromkeys(repr(address) for _, address in each))
            raise ClusterError(
                f"The cluster gives the address {addresses} to {' and '.join(name for name, _ in each)}. "
                f"Give each task an address of its own in {_NAME}."
            )
