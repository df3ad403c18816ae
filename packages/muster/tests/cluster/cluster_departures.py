"""Where muster departs from cluster_resolvers.json on purpose, and what it has no counterpart of."""

import json
import re
from collections.abc import Callable
from itertools import repeat
from typing import Any

from departures import Departure, Json, error
from muster.cluster.resolvers._slurm_lists import expand_hostlist, expand_tasks_per_node
from muster.cluster.resolvers._task_resolver import by_number

# Families about functions that TensorFlow keeps to itself: what muster has in their place, if anything.
NO_API_OF_OURS = {
    "is_chief": "TaskContext.is_chief, see run_config.json: an evaluator is no chief.",
    "id_in_cluster": "TaskContext.global_id_in_cluster, see run_config.json: servers have one, too.",
    "worker_count": "TaskContext.num_worker_replicas, see run_config.json.",
    "task_count": "ClusterSpec.num_tasks, an error for a job that does not exist.",
    "normalize_cluster_spec": "ClusterSpec takes another one, and has no protocol buffer to convert.",
    "collective_leader": "The name of a device of TensorFlow's runtime.",
    "coordination_leader": "The name of a device of TensorFlow's runtime.",
    "should_save_checkpoint": "muster has no Distribute Coordinator.",
    "should_load_checkpoint": "muster has no Distribute Coordinator.",
    "worker_context": "muster has no Distribute Coordinator.",
}

NOT_WHOLE = "A count is an integer: neither True nor a fraction."
TEXT = "Addresses, job names and directories are text; bytes would surprise whoever joins them."
_READ_ONCE = "A resolver reads the environment once, when it is built: what is wrong there is an error there."
_NULL = "A null in TF_CONFIG is the same as an absent key, not the text 'None'."
_SAME_TASK = "An address that is given again for the same job is the same task: two tasks cannot share one."
_FROM_0 = "Tasks count from 0."

Call = dict[str, Any]
Result = dict[str, Any]


def is_no_index(value: Any) -> bool:
    """Whether JSON that stands for a task's number is none, though Python's ``int`` takes it."""
    return isinstance(value, bool) or isinstance(value, float) and not value.is_integer()


def _of(class_name: str, rule: Callable[[Json, Json], Json | None]) -> Callable[[Json, Json], Json | None]:
    """Return a rule for the cases of one class."""
    return lambda asked, expect: rule(asked, expect) if asked.get("class") == class_name else None


def _each_result(rule: Callable[[Json, Call, Result], Result | None]) -> Callable[[Json, Json], Json | None]:
    """Return a rule for cases from one for a single call: its result here, None for TensorFlow's."""

    def ours(asked: Json, expect: Json) -> Json | None:
        if "results" not in expect:
            return None
        pairs = zip(asked["calls"], expect["results"], strict=True)
        return expect | {"results": [rule(asked, call, result) or result for call, result in pairs]}

    return ours


def _error_of(expect: Json) -> str | None:
    """Return the class of the error that a case ends with, if any."""
    kind: str | None = expect.get("error", {}).get("type")
    return kind


def _message(result: Result) -> str:
    return str(result.get("error", {}).get("message", ""))


# ClusterSpec.


def _jobs(asked: Json) -> list[tuple[Any, Any]]:
    """Return the jobs that a ClusterSpec is made from, each with its tasks."""
    (jobs,) = asked.get("args") or [{}]
    return jobs.get("$dict") or list(jobs.items()) if isinstance(jobs, dict) else []


def _bad_indices(asked: Json, expect: Json) -> Json | None:
    for job, tasks in _jobs(asked):
        seen = set()
        for key, _ in tasks.get("$dict", []) if isinstance(tasks, dict) else []:
            if is_no_index(key):
                return error("TypeError", f"must be an integer, given: {key}")
            if int(key) < 0:
                return error("ValueError", f"has a task with the negative index {key}")
            if int(key) in seen:
                return error("ValueError", f"Job {job!r} has two tasks with index {int(key)}")
            seen.add(int(key))
    return None


def _bytes_for_text(asked: Json, expect: Json) -> Json | None:
    for job, tasks in _jobs(asked):
        if isinstance(job, dict):
            return error("TypeError", f"Job name {job['$bytes'].encode()} must be bytes or unicode")
        for address in tasks if isinstance(tasks, list) else []:
            if isinstance(address, dict):
                return error(
                    "TypeError", f"Task address {address['$bytes'].encode()} must be bytes or unicode"
                )
    return None


def _equals(asked: Json, call: Call, result: Result) -> Result | None:
    return (
        {"value": False}
        if isinstance(call.get("equals"), dict) and "$cluster_spec" not in call["equals"]
        else None
    )


def _no_tasks(asked: Json, call: Call, result: Result) -> Result | None:
    return {"value": []} if _message(result).startswith("max() arg is an empty sequence") else None


# TFConfigClusterResolver.


def tf_config(asked: Json) -> Any:
    """Return what a case's TF_CONFIG says; text if it is not JSON."""
    text = asked.get("env", {}).get("TF_CONFIG")
    try:
        return json.loads("{}" if text is None else text)
    except json.JSONDecodeError:
        return text


def _wrong_tf_config(asked: Json, expect: Json) -> Json | None:
    config = tf_config(asked)
    if isinstance(config, str):
        return error("ValueError", "TF_CONFIG is not JSON")
    if not isinstance(config, dict):
        return error("TypeError", "TF_CONFIG must be a JSON object")
    task = config.get("task", {})
    if not isinstance(task, dict):
        return error("TypeError", '"task" in TF_CONFIG must be an object')
    first = expect.get("results", [{}])[0]
    if "error" in first and asked["calls"][0] == {"call": "cluster_spec"}:
        return {"error": first["error"]}
    index = task.get("index", 0)
    if is_no_index(index) or isinstance(index, str) and re.fullmatch(r"\s*-?\d+\s*", index) is None:
        return error("ValueError", f"must be an integer, given: {index!r}")
    return None


def _null_task(asked: Json, call: Call, result: Result) -> Result | None:
    config = tf_config(asked)
    task = config.get("task", {}) if isinstance(config, dict) else {}
    for key, name in (("type", "task_type"), ("index", "task_id")):
        if key in task and task[key] is None and not asked.get("kwargs", {}).get(name):
            if call == {"get": name}:
                return {"value": None}
            if call.get("call") in ("master", "num_accelerators") and "error" in result:
                return error("ValueError", "does not say which task this is")
    return None


def _unknown_accelerators(asked: Json, call: Call, result: Result) -> Result | None:
    return {"value": {}} if call.get("call") == "num_accelerators" and "error" in result else None


def _outside(asked: Json, call: Call, result: Result) -> Result | None:
    wanted = call.get("call") == "master" and _message(result) == "No such job in cluster: 'evaluator'"
    return {"value": ""} if wanted else None


# UnionResolver.


def _first(asked: Json) -> Json:
    """Return the first resolver of a union, and of unions in it."""
    while asked.get("class") == "UnionClusterResolver":
        asked = asked["args"][0]["$resolver"]
    return asked


def _layers(asked: Json, expect: Json) -> Json | None:
    if "results" not in expect:
        return None
    layer = asked.get("kwargs", {}).get("rpc_layer") or _first(asked).get("kwargs", {}).get("rpc_layer")
    overridden = asked.get("kwargs", {}).get("task_id")
    results = []
    for call, result in zip(asked["calls"], expect["results"], strict=True):
        if call.get("set") == "rpc_layer":
            layer = call["to"]
        if call.get("set") == "task_id":
            overridden = call["to"]
        address = result.get("value")
        if call.get("call") == "master" and isinstance(address, str):
            arguments = [*call.get("args", ()), *call.get("kwargs", {}).values()]
            bare = address.rpartition("://")[2]
            if layer and len(arguments) < 3 and "rpc_layer" not in call.get("kwargs", {}):
                result = {"value": f"{layer}://{bare}"}
        if call == {"get": "task_id"} and overridden == 0:
            result = {"value": 0}
        results.append(result)
    return {"results": results}


def _cluster_of(resolver: Json, env: Json) -> list[dict[str, Any]]:
    """Return the clusters that a union of resolvers puts together."""
    if resolver["class"] == "UnionClusterResolver":
        return [part for each in resolver["args"] for part in _cluster_of(each["$resolver"], env)]
    if resolver["class"] == "TFConfigClusterResolver":
        return [tf_config({"env": env}).get("cluster", {})]
    return [resolver["args"][0]["$cluster_spec"]]


def _merged(job: str, parts: list[Any]) -> dict[int, str]:
    """Return the tasks of one job, by their numbers, each address once."""
    lists = [
        dict(enumerate(each)) if isinstance(each, list) else {int(k): v for k, v in each.items()}
        for each in parts
    ]
    if all(sorted(tasks) == list(range(len(tasks))) for tasks in lists):
        return dict(
            enumerate(dict.fromkeys(address for tasks in lists for _, address in sorted(tasks.items())))
        )
    merged: dict[int, str] = {}
    for tasks in lists:
        clash = {index for index in tasks.keys() & merged.keys() if tasks[index] != merged[index]}
        if clash:
            raise KeyError(f"Duplicate keys detected when merging two ClusterSpecs: {clash}")
        merged |= tasks
    return merged


def _same_tasks(asked: Json, expect: Json) -> Json | None:
    if "results" not in expect:
        return None
    clusters = _cluster_of(asked, asked.get("env", {}))
    parts = {job: [each[job] for each in clusters if job in each] for each in clusters for job in each}
    addresses = {
        job: [a for tasks in each for a in (tasks if isinstance(tasks, list) else tasks.values())]
        for job, each in parts.items()
    }
    twice = any(len(set(each)) < len(each) for each in addresses.values())
    clashed = any("Duplicate keys" in _message(result) for result in expect["results"])
    if not twice and not clashed:
        return None
    try:
        jobs = {job: _merged(job, each) for job, each in parts.items()}
    except KeyError as clash:
        refused = error("KeyError", clash.args[0])
        return {
            "results": [refused if "Duplicate keys" in _message(each) else each for each in expect["results"]]
        }

    def again(call: Call, result: Result) -> Result:
        arguments = dict(zip(("task_type", "task_id", "rpc_layer"), call.get("args", ()), strict=False))
        arguments |= call.get("kwargs", {})
        if call == {"call": "cluster_spec"}:
            spec = {job: {str(index): each for index, each in tasks.items()} for job, tasks in jobs.items()}
            return {"value": {"$cluster_spec": spec}}
        if call.get("call") != "master" or not {"task_type", "task_id"} <= arguments.keys():
            return result
        job, index = arguments["task_type"], arguments["task_id"]
        if job not in jobs:
            return error("ValueError", f"No such job in cluster: {job!r}")
        if index not in jobs[job]:
            return error("ValueError", f"No task with index {index} in job {job!r}")
        layer = arguments.get("rpc_layer")
        return {"value": f"{layer}://{jobs[job][index]}" if layer else jobs[job][index]}

    return {"results": [again(*pair) for pair in zip(asked["calls"], expect["results"], strict=True)]}


def _unknown_keyword(asked: Json, expect: Json) -> Json | None:
    if not _message(expect).startswith("Unexpected kwargs provided"):
        return None
    known = ("cluster_spec", "task_type", "task_id", "rpc_layer")
    return error(
        "TypeError", f"unexpected keyword argument '{next(k for k in asked['kwargs'] if k not in known)}'"
    )


# SlurmClusterResolver.


def _hosts(asked: Json) -> dict[str, int]:
    """Return how many tasks each host has, in the order that they are given in."""
    per_host = asked.get("kwargs", {}).get("tasks_per_node")
    if isinstance(per_host, dict):
        return per_host
    hosts = expand_hostlist(asked["env"]["SLURM_STEP_NODELIST"])
    counts = (
        expand_tasks_per_node(asked["env"]["SLURM_STEP_TASKS_PER_NODE"])
        if per_host is None
        else repeat(per_host)
    )
    return dict(zip(hosts, counts, strict=False))


def _rank(asked: Json) -> int:
    return int(asked["env"]["SLURM_PROCID"])


def _slurm_jobs(asked: Json) -> dict[str, int]:
    return asked.get("kwargs", {}).get("jobs") or {"worker": int(asked["env"]["SLURM_STEP_NUM_TASKS"])}


def _no_such_rank(asked: Json, expect: Json) -> Json | None:
    if "results" not in expect:
        return None
    tasks = sum(_slurm_jobs(asked).values())
    if _rank(asked) in range(tasks):
        return None
    return error("ValueError", f"SLURM_PROCID is {_rank(asked)}, which is none of the step's {tasks}")


def _slurm(asked: Json, gpus: int | None, visible: str | None, expect: Json) -> Json:
    """Return what the calls give, with the hosts in their order."""
    kwargs = asked.get("kwargs", {})
    layer, base = kwargs.get("rpc_layer", "grpc"), kwargs.get("port_base", 8888)
    addresses = iter(
        [f"{host}:{base + local}" for host, tasks in _hosts(asked).items() for local in range(tasks)]
    )
    cluster = {
        job: [next(addresses) for _ in range(tasks)] for job, tasks in sorted(_slurm_jobs(asked).items())
    }
    job, index = [(job, index) for job, tasks in cluster.items() for index in range(len(tasks))][_rank(asked)]

    def answer(call: Call, result: Result) -> Result:
        match call:
            case {"call": "cluster_spec"}:
                return {"value": {"$cluster_spec": cluster}}
            case {"call": "get_task_info"}:
                return {"value": {"$tuple": [job, index]}}
            case {"get": "task_type"}:
                return {"value": job}
            case {"get": "task_id"}:
                return {"value": index}
            case {"get": "rpc_layer"}:
                return {"value": layer}
            case {"call": "master"}:
                kind, at, by, *_ = [*call.get("args", ()), None, None, None]
                address = cluster[kind or job][index if at is None else at]
                return {"value": f"{by or layer}://{address}" if by or layer else address}
            case {"call": "num_accelerators"} if gpus is not None:
                return {"value": {"GPU": gpus}}
            case {"env_after": _} if gpus is not None:
                return {"value": visible}
        return result

    results = expect.get("results") or [{}] * len(asked["calls"])
    return {"results": [answer(*pair) for pair in zip(asked["calls"], results, strict=True)]}


def _without_gpus(asked: Json, expect: Json) -> Json | None:
    kwargs, visible = asked.get("kwargs", {}), asked["env"].get("CUDA_VISIBLE_DEVICES")
    has_some = visible or "gpus_per_node" in kwargs
    if has_some and kwargs.get("gpus_per_task") != 0 or _error_of(expect) not in (None, "FileNotFoundError"):
        return None
    return _slurm(asked, 0, None if visible is None else "", expect)


def _order_of_hosts(asked: Json, expect: Json) -> Json | None:
    if "results" not in expect:
        return None
    match asked["class"]:
        case "SlurmClusterResolver":
            per_host = asked.get("kwargs", {}).get("tasks_per_node")
            is_sorted = not isinstance(per_host, dict) or list(per_host) == sorted(per_host)
            return None if is_sorted else _slurm(asked, None, None, expect)
        case "SageMakerClusterResolver":
            return _counted(asked, expect, {"worker": [json.loads(asked["env"]["SM_HOSTS"])]})
        case "KubernetesClusterResolver":
            pods = asked["kwargs"]["override_client"]["$fake_kubernetes"]
            jobs = asked["kwargs"].get("job_to_label_mapping") or {"worker": ["job-name=tensorflow"]}
            names = {job: [[pod[0] for pod in pods.get(each, ())] for each in jobs[job]] for job in jobs}
            return _counted(asked, expect, names)
    return None


def _counted(asked: Json, expect: Json, names: dict[str, list[list[str]]]) -> Json | None:
    """Sort the hosts of each job, of which each group is sorted as text, as people count."""
    as_text = {job: [name for group in groups for name in sorted(group)] for job, groups in names.items()}
    ours = {job: [name for group in names[job] for name in sorted(group, key=by_number)] for job in names}
    look = {"call": "cluster_spec"}
    cluster = expect["results"][asked["calls"].index(look)].get("value") if look in asked["calls"] else None
    if as_text == ours or cluster is None:
        return None
    theirs = cluster["$cluster_spec"]
    moved = {job: {as_text[job].index(name): at for at, name in enumerate(ours[job])} for job in theirs}
    addresses = {job: [theirs[job][old] for old in moved[job]] for job in theirs}
    replaced = {old: addresses[job][at] for job in theirs for at, old in enumerate(theirs[job])}

    def answer(call: Call, result: Result) -> Result:
        match call, result:
            case {"call": "cluster_spec"}, _:
                return {"value": {"$cluster_spec": addresses}}
            case {"get": "task_id"}, {"value": int(old)} if "SM_HOSTS" in asked.get("env", {}):
                return {"value": moved["worker"][old]}
            case {"call": "master"}, {"value": str(address)} if "SM_HOSTS" not in asked.get("env", {}):
                layer, between, bare = address.rpartition("://")
                return {"value": f"{layer}{between}{replaced.get(bare, bare)}"}
        return result

    return {"results": [answer(*pair) for pair in zip(asked["calls"], expect["results"], strict=True)]}


def _known_at_once(asked: Json, expect: Json) -> Json | None:
    """Take for the calls before the first that looks at the cluster what the same calls give after it."""
    calls, results = asked["calls"], list(expect.get("results", []))
    looks = [at for at, call in enumerate(calls) if call.get("call") == "cluster_spec" or "args" in call]
    for at in range(looks[0] if looks and results else 0):
        later = [place for place in range(looks[0], len(calls)) if calls[place] == calls[at]]
        if later:
            results[at] = results[later[0]]
    return expect | {"results": results} if results else None


# SageMakerClusterResolver.


def _wrong_hosts(asked: Json, expect: Json) -> Json | None:
    if "results" not in expect:
        return None
    if not {"SM_HOSTS", "SM_CURRENT_HOST"} <= {
        name for name, value in asked["env"].items() if value is not None
    }:
        return error("RuntimeError", "Not a SageMaker Environment")
    text, current = asked["env"]["SM_HOSTS"], asked["env"]["SM_CURRENT_HOST"]
    try:
        hosts = json.loads(text)
    except json.JSONDecodeError:
        return error("ValueError", "SM_HOSTS is not JSON")
    if not isinstance(hosts, list):
        return error("ValueError", "SM_HOSTS must be a list of hosts")
    if len(set(hosts)) < len(hosts):
        return error("ValueError", "SM_HOSTS names a host twice")
    return (
        None
        if current in hosts
        else error("ValueError", f"SM_CURRENT_HOST is {current!r}, which is none of SM_HOSTS")
    )


# validate_cluster_spec.


def _validated(asked: Json, expect: Json) -> Json | None:
    if not asked.get("function", "").endswith("_validate_cluster_spec"):
        return None
    _, job, index = asked["args"]
    refused = isinstance(index, int) and index < 0 and "error" not in expect
    return error("ValueError", f"is not an id of {job}") if refused else None


def _no_cluster(asked: Json, expect: Json) -> Json | None:
    refused = _message(expect).startswith("`cluster_spec' should be dict or")
    if not refused or not asked["function"].endswith("_validate_cluster_spec"):
        return None
    return error("ValueError", "must be a dictionary mapping one or more job names")


DEPARTURES = (
    Departure(
        "An index is an integer from 0 on, and no address is lost in silence.",
        _of("ClusterSpec", _bad_indices),
    ),
    Departure(TEXT, _of("ClusterSpec", _bytes_for_text)),
    Departure(
        "A ClusterSpec equals ClusterSpecs only, not the dict that TensorFlow happens to keep inside.",
        _of("ClusterSpec", _each_result(_equals)),
    ),
    Departure("An empty job has no tasks: that is no error.", _of("ClusterSpec", _each_result(_no_tasks))),
    Departure(_READ_ONCE, _of("TFConfigClusterResolver", _wrong_tf_config)),
    Departure(_NULL, _of("TFConfigClusterResolver", _each_result(_null_task))),
    Departure(
        "An evaluator is outside the cluster, and needs no address.",
        _of("TFConfigClusterResolver", _each_result(_outside)),
    ),
    Departure(_SAME_TASK, _of("UnionClusterResolver", _same_tasks)),
    Departure(
        "The protocol is that of rpc_layer for every address, and a number of 0 is one like any other.",
        _of("UnionClusterResolver", _layers),
    ),
    Departure("Python itself refuses unknown keywords.", _of("UnionClusterResolver", _unknown_keyword)),
    Departure(_READ_ONCE, _of("SlurmClusterResolver", _no_such_rank)),
    Departure(_READ_ONCE, _of("SageMakerClusterResolver", _wrong_hosts)),
    Departure("A job may run on hosts without GPUs.", _of("SlurmClusterResolver", _without_gpus)),
    Departure(
        "Hosts keep the order that they are given in, or are sorted as people count, with n2 before n10.",
        lambda asked, expect: _order_of_hosts(asked, expect) if "class" in asked else None,
    ),
    Departure(
        "Which task this is, is known as soon as the resolver is built, as it is for TF_CONFIG.",
        _of("SlurmClusterResolver", _known_at_once),
    ),
    Departure(
        "How many accelerators there are is not a matter of addresses: an unknown task has none known.",
        _each_result(_unknown_accelerators),
    ),
    Departure(_FROM_0, _validated),
    Departure("ClusterSpec says what is wrong.", _no_cluster),
)
