"""Cases in which muster departs from what TensorFlow did, on purpose: the reason, and what muster does.

The key is the oracle's file and the case's name. `expect` stands in for the case's own, in the same form;
None where the case has no counterpart. What is left out of whole families of cases stands below, with its
reason.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Departure:
    """One case.

    Args:
        reason: Why muster does something else.
        expect: What muster does, in the form of the case, or what makes that of the case's own expectation;
            None if the case has no counterpart.
    """

    reason: str
    expect: dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]] | None


def _error(kind: str, message: str, reason: str) -> Departure:
    return Departure(reason, {"error": {"type": kind, "message": message}})


def _value(value: Any, reason: str, **also: Any) -> Departure:
    return Departure(reason, {"value": value, **also})


_WHOLE = "A count is a whole number, and a time a number: not True, a fraction, or NaN."
_TEXT = "Addresses, job names and directories are text; bytes would surprise whoever joins them."
_ROLES = "A strategy does not change which task this is, and what is wrong with a cluster stays an error."
_CLUSTER = {"chief": ["c0:2222"], "worker": ["w0:2222", "w1:2222", "w2:2222"], "ps": ["p0:2222", "p1:2222"]}


def _placed(cluster: Any, task: str, index: int, **others: Any) -> dict[str, Any]:
    """Return what RunConfig derives for one task of a cluster."""
    return {
        "task_type": task,
        "task_id": index,
        "is_chief": False,
        "num_worker_replicas": 4,
        "num_ps_replicas": 2,
        "evaluation_master": "",
        "cluster_spec": cluster,
        "model_dir": None,
        "service": None,
        "train_distribute": "OneDeviceStrategy",
        "eval_distribute": None,
        **others,
    }


def _strategy(cluster: Any, task: str, index: int, **others: Any) -> Departure:
    return _value(_placed(cluster, task, index, **others), _ROLES)


_RUN_CONFIG = {
    "tf_config/local_index_null": _value(
        {"task_id": 0, "is_chief": True}, "A null in TF_CONFIG is the same as an absent key.", partial=True
    ),
    "tf_config/local_index_fraction": _error("ValueError", "must be a whole number, given: 0.9", _WHOLE),
    "tf_config/standard/index_fraction": _error("ValueError", "must be a whole number, given: 1.9", _WHOLE),
    "tf_config/standard/index_true": _error("ValueError", "must be a whole number, given: True", _WHOLE),
    "tf_config/standard/index_false": _error("ValueError", "must be a whole number, given: False", _WHOLE),
    "tf_config/empty_worker_list/ps_0": _value(
        {
            "task_type": "ps",
            "task_id": 0,
            "is_chief": False,
            "num_worker_replicas": 1,
            "global_id_in_cluster": 1,
        },
        "An empty job is no reason to fail for some of the tasks.",
        partial=True,
    ),
    "tf_config/duplicate_addresses": _error(
        "ValueError", "gives the address 'a:1' to chief 0 and worker 0", "Such a job hangs."
    ),
    "tf_config/session_master/null": _value(
        {"master": "grpc://w1:2222"}, "A null in TF_CONFIG is the same as an absent key.", partial=True
    ),
    "tf_config/model_dir/bytes": _value({"model_dir": "/m"}, _TEXT, partial=True),
    "tf_config/model_dir/bytes_and_tf_config": _value({"model_dir": "/m"}, _TEXT, partial=True),
    "tf_config/session_config/user_kept": _error(
        "ValueError", "leave it out", "JAX has no sessions that a ConfigProto could configure."
    ),
    "field/tf_random_seed_true": _error("ValueError", "tf_random_seed must be integer", _WHOLE),
    "field/keep_checkpoint_max_fraction": _error("ValueError", "must be a whole number, given: 2.5", _WHOLE),
    "field/log_step_count_steps_fraction": _error("ValueError", "must be a whole number, given: 0.5", _WHOLE),
    "field/experimental_max_worker_delay_secs_true": _error(
        "ValueError", "experimental_max_worker_delay_secs must be an integer if set", _WHOLE
    ),
    "replace/model_dir_pathlib": _value({"model_dir": "/m"}, "As it is without replace.", partial=True),
    "strategy/train_cluster/chief_0": _strategy(
        _CLUSTER, "chief", 0, is_chief=True, master="grpc://c0:2222", global_id_in_cluster=0
    ),
    "strategy/train_cluster/worker_1": _strategy(
        _CLUSTER, "worker", 1, master="grpc://w1:2222", global_id_in_cluster=2
    ),
    "strategy/train_cluster/ps_0": _strategy(
        _CLUSTER, "ps", 0, master="grpc://p0:2222", global_id_in_cluster=4
    ),
    "strategy/train_cluster/evaluator_0": _strategy(
        {}, "evaluator", 0, num_worker_replicas=0, num_ps_replicas=0, master="", global_id_in_cluster=None
    ),
    "strategy/train_cluster/worker_9": _error(
        "ValueError", "9 is not a valid task_id for task_type worker", _ROLES
    ),
    "strategy/train_worker_only_cluster": _strategy(
        {"worker": ["w0:2222", "w1:2222"]},
        "worker",
        1,
        num_worker_replicas=2,
        num_ps_replicas=0,
        master="grpc://w1:2222",
        global_id_in_cluster=1,
    ),
    "strategy/train_two_chiefs_unchecked": _error("ValueError", 'must have only one "chief" node', _ROLES),
    "strategy/train_no_task_unchecked": _error("ValueError", "task type must be set", _ROLES),
    "strategy/train_service_dropped": _strategy(
        _CLUSTER, "chief", 0, is_chief=True, master="_sm", global_id_in_cluster=0, service={"a": 1}
    ),
    "strategy/experimental_remote_cluster": _error(
        "ValueError",
        "is not supported",
        "muster drives no cluster from outside: each task is started with TF_CONFIG.",
    ),
}

_REPLACED = "A copy made by _replace is checked as the original was."

_SPECS = {
    "EvalSpec/steps_fraction": _error("ValueError", "must be a whole number, given: 0.5", _WHOLE),
    "EvalSpec/steps_true": _error("TypeError", "must be a number, given: True", _WHOLE),
    "EvalSpec/start_delay_secs_nan": _error("ValueError", "Must specify start_delay_secs >= 0", _WHOLE),
    "EvalSpec/throttle_secs_nan": _error("ValueError", "Must specify throttle_secs >= 0", _WHOLE),
    "EvalSpec/exporters_generator_is_used_up": _value(
        {"exporters": ({"kind": "exporter", "name": "a"}, {"kind": "exporter", "name": "b"})},
        "Validation must not lose the exporters.",
        partial=True,
    ),
    "tuple/train_set_new_attribute": _error(
        "AttributeError", "extra", "A misspelt attribute must not be set in silence."
    ),
    "tuple/train_replace_is_not_validated": _error("ValueError", "Must specify max_steps > 0", _REPLACED),
    "tuple/eval_replace_is_not_validated": _error("ValueError", "Must specify throttle_secs >= 0", _REPLACED),
    "EstimatorSpec/mode_unknown": _error(
        "ValueError", "mode must be one of", "No code handles another mode."
    ),
    "EstimatorSpec/mode_unknown_with_loss": _error(
        "ValueError", "mode must be one of", "No code handles another mode."
    ),
    "EstimatorSpec/train_op_other_graph": Departure(
        "JAX has no graphs; it reports a value of another trace itself.", None
    ),
    "EstimatorSpec/metrics_keras_fresh": _value(
        {"mode": "eval"}, "A Keras 3 metric does not record whether it was updated.", partial=True
    ),
}

_READ_ONCE = "The resolver reads TF_CONFIG once, when it is built: a wrong one is an error there."
_SILENT_NULL = "A null in TF_CONFIG is the same as an absent key, not the text 'None'."

_CLUSTER_RESOLVERS = {
    "ClusterSpec/fraction_keys": _error("TypeError", "must be a whole number, given: 1.9", _WHOLE),
    "ClusterSpec/same_key_after_int": _error(
        "ValueError", "has two tasks with index 1", "One of the two addresses would be lost in silence."
    ),
    "ClusterSpec/negative_key": _error(
        "ValueError", "has a task with the negative index -1", "Tasks count from 0."
    ),
    "ClusterSpec/empty_dict_job": Departure(
        "An empty job has no tasks: that is no error.",
        {
            "results": [
                {"value": {"worker": {}}},
                {"value": ["worker"]},
                {"value": 0},
                {"value": []},
                {"value": []},
                {"error": {"type": "ValueError", "message": "No task with index 0 in job 'worker'"}},
                {"value": True},
            ]
        },
    ),
    "ClusterSpec/address_bytes": _error("TypeError", "Task address b'a:1' must be bytes or unicode", _TEXT),
    "ClusterSpec/job_name_bytes": _error("TypeError", "Job name b'worker' must be bytes or unicode", _TEXT),
    "ClusterSpec/equality": Departure(
        "A ClusterSpec equals ClusterSpecs only, not the dict that TensorFlow happens to keep inside.",
        {"results": [{"value": each} for each in (True, True, False, False, False, False, False)]},
    ),
    "TFConfigClusterResolver/empty_text": _error("ValueError", "TF_CONFIG is not JSON", _READ_ONCE),
    "TFConfigClusterResolver/not_json": _error("ValueError", "TF_CONFIG is not JSON", _READ_ONCE),
    "TFConfigClusterResolver/null": _error("TypeError", "TF_CONFIG must be a JSON object", _READ_ONCE),
    "TFConfigClusterResolver/index_bad_text": _error(
        "ValueError", "must be a whole number, given: 'x'", _READ_ONCE
    ),
    "TFConfigClusterResolver/index_fraction": _error(
        "ValueError", "must be a whole number, given: 1.9", _WHOLE
    ),
    "TFConfigClusterResolver/task_null": _error(
        "TypeError", '"task" in TF_CONFIG must be an object', _READ_ONCE
    ),
}


def _resolved(task_type: Any, task_id: Any, master: Any, reason: str) -> Departure:
    cluster = {"chief": ["c0:2222"], "worker": ["w0:2222", "w1:2222"], "ps": ["p0:2222", "p1:2222"]}
    first = [{"$cluster_spec": cluster}, task_type, task_id, None, None]
    return Departure(reason, {"results": [*({"value": each} for each in first), master, {"value": {}}]})


_NO_TASK = {"error": {"type": "ValueError", "message": "does not say which task this is"}}
_NUMBERS = "How many accelerators there are is not a matter of addresses: an unknown task has none known."

_CLUSTER_RESOLVERS |= {
    "TFConfigClusterResolver/type_null": _resolved(None, 0, _NO_TASK, _SILENT_NULL),
    "TFConfigClusterResolver/index_null": _resolved("worker", None, _NO_TASK, _SILENT_NULL),
    "TFConfigClusterResolver/standard_evaluator_0": _resolved(
        "evaluator", 0, {"value": ""}, "An evaluator is outside the cluster, and needs no address."
    ),
    "TFConfigClusterResolver/standard_worker_-1": _resolved(
        "worker",
        -1,
        {"error": {"type": "ValueError", "message": "No task with index -1 in job 'worker'"}},
        _NUMBERS,
    ),
    "TFConfigClusterResolver/standard_gpu_0": _resolved(
        "gpu", 0, {"error": {"type": "ValueError", "message": "No such job in cluster: 'gpu'"}}, _NUMBERS
    ),
    "TFConfigClusterResolver/type_number": _resolved(
        "5", 0, {"error": {"type": "ValueError", "message": "No such job in cluster: '5'"}}, _NUMBERS
    ),
    "TFConfigClusterResolver/sparse_missing_index": Departure(
        _NUMBERS,
        {
            "results": [
                {"value": {"$cluster_spec": {"worker": {"$dict": [[1, "w1:1"], [2, "w2:1"]]}}}},
                {"value": "worker"},
                {"value": 0},
                {"value": None},
                {"value": None},
                {"error": {"type": "ValueError", "message": "No task with index 0 in job 'worker'"}},
                {"value": {}},
            ]
        },
    ),
}

_EMPTY = "An input without examples is a mistake, which must not pass for a result."
_EXPORTERS = "The exporters are not there yet."


def _fails(expect: dict[str, Any], message: str, events: int, logs: int) -> dict[str, Any]:
    """Return an expectation that is cut off by an error after so many events and lines."""
    return expect | {
        "error": {"type": "ValueError", "message": message},
        "events": expect["events"][:events],
        "logs": expect["logs"][:logs],
    }


def _empty_train(expect: dict[str, Any]) -> dict[str, Any]:
    nothing = {"checkpoints": {"steps_on_disk": [], "latest": None}, "files": []}
    return _fails(expect, "The input_fn for train gave no batch", 0, 3) | nothing


def _empty_eval(expect: dict[str, Any]) -> dict[str, Any]:
    first_eval = next(i for i, event in enumerate(expect["events"]) if event["event"] == "eval_begin")
    calls = [i for i, line in enumerate(expect["logs"]) if line[1] == "Calling model_fn."]
    files = [file for file in expect["files"] if not file.startswith("eval")]
    return _fails(expect, "The input_fn for eval gave no batch", first_eval + 1, calls[1]) | {"files": files}


def _last_loss(expect: dict[str, Any]) -> dict[str, Any]:
    return expect | {"logs": [*expect["logs"][:-1], ["INFO", "Loss for final step: 0.6776993."]]}


def _stopped_at_0(expect: dict[str, Any]) -> dict[str, Any]:
    """Return the expectation with all that came of step 10 at step 0, and without steps."""
    metrics = {"values": {"global_step": 0, "loss": 1.0062256, "mean_prediction": 0.0}}
    returned = expect["returned"] | {"metrics": expect["returned"]["metrics"] | metrics}
    events = [event for event in expect["events"] if event.get("step") != 10]
    events = [event | {"checkpoint": "model.ckpt-0"} if "checkpoint" in event else event for event in events]
    events = [event | {"global_step": 0} if "global_step" in event else event for event in events]
    events = [event | {"loss": 1.0062256} if "loss" in event else event for event in events]
    lines = [message for _, message in expect["logs"]]
    asked = next(i for i, line in enumerate(lines) if "requested that training be stopped" in line)
    calls = [i for i, line in enumerate(lines) if line == "Calling model_fn."]
    lines = [*lines[: asked + 1], *lines[calls[1] : -1], "Loss for final step: None."]
    lines = [line.replace("step 10", "step 0").replace("ckpt-10", "ckpt-0") for line in lines]
    lines = [re.sub(r"global_step = 10, .*", _METRICS_OF_0, line) for line in lines]
    return expect | {
        "returned": returned,
        "events": events,
        "checkpoints": {"steps_on_disk": [0], "latest": "model.ckpt-0"},
        "logs": [["INFO", line] for line in lines],
    }


_METRICS_OF_0 = "global_step = 0, loss = 1.0062256, mean_prediction = 0.0"

_RUNS = {
    "input_empty": Departure(_EMPTY, _empty_train),
    "eval_input_empty": Departure(_EMPTY, _empty_eval),
    "hook_raises_stop_iteration": Departure(
        "The last step has run when a hook raises after it: its loss is the one of the final step.",
        _last_loss,
    ),
    "listener_requests_stop_at_0": Departure(
        "A listener's request to stop is followed at every save, the first too.", _stopped_at_0
    ),
    "keep_max_2_after_resume": Departure(
        "A lower keep_checkpoint_max holds for the checkpoints that are there already.",
        lambda expect: expect | {"checkpoints": {"steps_on_disk": [20, 25], "latest": "model.ckpt-25"}},
    ),
    "exporters_all": Departure(_EXPORTERS, None),
    "exporter_final_without_max_steps": Departure(_EXPORTERS, None),
    "exporter_final_when_stopped_early": Departure(_EXPORTERS, None),
}

_PACKS = {
    "options/timeout_negative_not_validated": _error(
        "ValueError",
        "Argument `timeout_seconds` must be >=0, Received -3.5.",
        "A timeout below zero cannot be meant.",
    ),
}

DEPARTURES: dict[str, Departure] = {
    f"{file}/{name}": departure
    for file, family in (
        ("run_config", _RUN_CONFIG),
        ("specs", _SPECS),
        ("cluster_resolvers", _CLUSTER_RESOLVERS),
        ("train_and_evaluate_local", _RUNS),
        ("communication_packs", _PACKS),
    )
    for name, departure in family.items()
}

# What is left out of whole families of cases, and why.
FAMILIES = {
    "session_config_device_filters": "JAX has no sessions whose view of the devices could be filtered.",
    "distribute_coordinator_mode": "muster has no Distribute Coordinator.",
    "Not using Distribute Coordinator.": "muster has no Distribute Coordinator.",
    "as_cluster_def": "A ClusterDef is a protocol buffer, which muster does without.",
    "scaffold": "A Scaffold sets up a graph, which JAX does not have.",
    "slept": "Tasks may start in any order, so no worker waits for the chief.",
    "Tensorflow server": "The server is muster's.",
    "model.ckpt-10": "A checkpoint is a directory, called ckpt-10.",
    "listed": "There is no list of checkpoints beside the directories themselves.",
    "session_log CHECKPOINT": "Its path is the folder of the checkpoints: there is no prefix of files.",
    "racy_by_one_run": "The reading one run later is allowed, as the case says.",
}

# Families of cluster_resolvers.json about functions that TensorFlow keeps to itself: what muster has in their
# place, or why it needs nothing.
NO_API_OF_OURS = {
    "is_chief": "Placement.is_chief, see run_config.json: an evaluator is no chief.",
    "id_in_cluster": "Placement.global_id_in_cluster, see run_config.json: parameter servers have one, too.",
    "worker_count": "Placement.num_worker_replicas, see run_config.json.",
    "task_count": "ClusterSpec.num_tasks, an error for a job that does not exist.",
    "normalize_cluster_spec": "ClusterSpec takes another one, and has no protocol buffer to convert.",
    "collective_leader": "The name of a device of TensorFlow's runtime.",
    "coordination_leader": "The name of a device of TensorFlow's runtime.",
    "should_save_checkpoint": FAMILIES["distribute_coordinator_mode"],
    "should_load_checkpoint": FAMILIES["distribute_coordinator_mode"],
    "worker_context": FAMILIES["distribute_coordinator_mode"],
}


def log_line(message: str) -> str | None:
    """Return a line that TensorFlow logged as muster logs it, None if muster has no use for it."""
    if message == "Not using Distribute Coordinator." or "all_model_checkpoint_paths" in message:
        return None
    # The names of checkpoints, of the server, and of a class.
    message = message.replace("model.ckpt", "ckpt").replace("Tensorflow server", "muster server")
    return re.sub(r"<tensorflow_estimator[^>]*>", "<muster_class>", message)


def evaluator_ends_at_once(
    events: list[dict[str, Any]], logs: list[list[str]]
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Leave out that TensorFlow's evaluator waits once more after its last evaluation."""
    ended = "Exiting evaluation, global_step="
    waited = "starting next eval run." in logs[-2][1] if len(logs) > 1 else False
    if logs[-1][1].startswith(ended) and waited:
        return events[:-1], [*logs[:-2], logs[-1]]
    return events, logs


def one_run_later(message: str) -> str:
    """Return a line about early stopping as it is one run later."""
    found = re.fullmatch(r"(Requesting early stopping at global step )(\d+)", message)
    return f"{found[1]}{int(found[2]) + 1}" if found else message


_AT_ONCE = "Which task this is, is known as soon as the resolver is built, as it is for TF_CONFIG."
_NO_GPUS = "A job may run on hosts without GPUs."
_HOST_ORDER = "Hosts keep the order that they are given in: sorted as text, n10 would come before n2."
_SM_ONCE = "The resolver reads the environment once, when it is built: a wrong one is an error there."
_SAME_TASK = "An address that is given again for the same job is the same task: two tasks cannot share one."
_UNION_LAYER = "The protocol is that of rpc_layer, also in the address of a task that is asked for."


def _with(results: dict[int, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what replaces some results of a case, given by their places; errors as ``_Refused``."""

    def ours(expect: dict[str, Any]) -> dict[str, Any]:
        changed = list(expect["results"])
        for place, value in results.items():
            changed[place] = {"error": dict(value)} if isinstance(value, _Refused) else {"value": value}
        return {"results": changed}

    return ours


class _Refused(dict[str, str]):
    """What an error is expected to be: its built-in class, and the message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(type=kind, message=message)


def _at_once(expect: dict[str, Any]) -> dict[str, Any]:
    """Return the expectation with the first two results, task and master, as they are after cluster_spec."""
    results = expect["results"]
    return {"results": [results[3], results[7], *results[2:]]}


def _slurm(addresses: list[str], gpus: int, visible: str | None) -> dict[str, Any]:
    """Return what a resolver of one job answers at rank 0 to the usual calls."""
    master = f"grpc://{addresses[0]}"
    task = {"$tuple": ["worker", 0]}
    spec = {"$cluster_spec": {"worker": addresses}}
    other = f"verbs://{addresses[1]}"
    answers = [task, master, spec, task, "worker", 0, "grpc", master, master, other, {"GPU": gpus}, visible]
    return {"results": [{"value": answer} for answer in answers]}


_SLURM_HOSTS = [f"t{number}:8888" for number in range(4)]

_UNION = {
    "one": Departure(_UNION_LAYER, _with({7: "grpc://a0:1"})),
    "first_wins": Departure(_UNION_LAYER, _with({7: "grpc://a0:1"})),
    "nested": Departure(_UNION_LAYER, _with({7: "grpc://a0:1"})),
    "setters": Departure(
        "A number of 0 is one like any other, and what is set holds for every address.",
        _with({7: 0, 8: "x://"}),
    ),
    "override_task_id_zero": Departure("A number of 0 is one like any other.", _with({2: 0})),
    "same_address_twice": Departure(
        _SAME_TASK,
        _with(
            {
                0: {"$cluster_spec": {"worker": ["a0:1", "a1:1"]}},
                9: _Refused("ValueError", "No task with index 2 in job 'worker'"),
            }
        ),
    ),
    "accelerators_override": Departure(
        _SAME_TASK,
        _with(
            {
                0: {"$cluster_spec": _CLUSTER | {"worker": ["w0:2222", "w1:2222"]}},
                9: _Refused("ValueError", "No task with index 2 in job 'worker'"),
            }
        ),
    ),
    "dicts_clash_same_address": Departure(
        _SAME_TASK,
        _with(
            {
                0: {"$cluster_spec": {"worker": {"1": "a:1"}}},
                7: _Refused("ValueError", "No task with index 0 in job 'worker'"),
                8: _Refused("ValueError", "No task with index 0 in job 'worker'"),
                9: _Refused("ValueError", "No task with index 2 in job 'worker'"),
                12: _Refused("ValueError", "No such job in cluster: 'nope'"),
            }
        ),
    ),
    "dict_then_two_lists_clash": Departure(
        _SAME_TASK,
        _with(
            {
                0: {"$cluster_spec": {"worker": {"0": "a0:1", "1": "a1:1", "3": "b3:1"}}},
                7: "a0:1",
                8: "verbs://a0:1",
                9: _Refused("ValueError", "No task with index 2 in job 'worker'"),
                12: _Refused("ValueError", "No such job in cluster: 'nope'"),
            }
        ),
    ),
    **{
        name: Departure(
            "The message is no key, and needs no quotes around it.",
            _with(
                {
                    place: _Refused("KeyError", "Duplicate keys detected when merging two ClusterSpecs: {1}")
                    for place in (0, 7, 8, 9, 12)
                }
            ),
        )
        for name in ("dicts_clash", "list_then_dict_clash")
    },
    **{
        name: _error(
            "TypeError", "unexpected keyword argument 'foo'", "Python itself refuses unknown keywords."
        )
        for name in ("unknown_keyword", "unknown_keyword_before_no_arguments")
    },
}

_SLURM = {
    **{
        name: Departure(_AT_ONCE, _at_once)
        for name in (
            "defaults_rank_0",
            "defaults_rank_3",
            "no_num_tasks_but_jobs",
            "no_tasks_per_node_given",
            "jobs_ps_worker_rank_1",
            "jobs_ps_worker_rank_2",
            "jobs_ps_worker_rank_3",
            "jobs_sorted_by_name",
            "jobs_zero_tasks",
            "port_base",
            "rpc_layer_other",
            "rpc_layer_none",
            "two_per_node",
            "auto_set_gpu_off",
            "nodelist_longer_than_tasks",
            "tasks_per_node_number",
        )
    },
    "rank_out_of_range": _error("ValueError", "SLURM_PROCID is 4, which is none of the step's 4", _SM_ONCE),
    "rank_negative": _error("ValueError", "SLURM_PROCID is -1, which is none of the step's 4", _SM_ONCE),
    "cuda_visible_devices_empty": Departure(_NO_GPUS, _slurm(_SLURM_HOSTS, 0, "")),
    "no_cuda_visible_devices_no_nvidia_smi": Departure(_NO_GPUS, _slurm(_SLURM_HOSTS, 0, None)),
    "zero_gpus_per_task": Departure(_NO_GPUS, _slurm(_SLURM_HOSTS, 0, "")),
    "tasks_per_node_dict": Departure(_HOST_ORDER, _slurm(["y:8888", "x:8888", "x:8889", "x:8890"], 1, "0")),
}

_SAGEMAKER = {
    "not_sagemaker": _error("RuntimeError", "Not a SageMaker Environment", _SM_ONCE),
    "current_only": _error("RuntimeError", "Not a SageMaker Environment", _SM_ONCE),
    "current_not_in_hosts": _error(
        "ValueError", "SM_CURRENT_HOST is 'z', which is none of SM_HOSTS", _SM_ONCE
    ),
    "hosts_empty_text": _error("ValueError", "SM_HOSTS is not JSON", _SM_ONCE),
    "hosts_empty_list": _error("ValueError", "SM_CURRENT_HOST is 'a', which is none of SM_HOSTS", _SM_ONCE),
    "hosts_duplicate": _error("ValueError", "SM_HOSTS names a host twice", _SAME_TASK),
}

_KUBERNETES = {
    "pending_pod": Departure(_NUMBERS, _with({13: {}})),
    "no_pods": Departure(_NUMBERS, _with({13: {}})),
}

_VALIDATED = {
    "chief_cluster/worker_-1": _error("ValueError", "is not an id of worker", "Tasks count from 0."),
    **{
        name: _error(
            "ValueError",
            "must be a dictionary mapping one or more job names",
            "ClusterSpec says what is wrong.",
        )
        for name in ("none/None_None", "text/worker_0")
    },
}

DEPARTURES |= {
    f"cluster_resolvers/{family}/{name}": departure
    for family, cases in (
        ("UnionClusterResolver", _UNION),
        ("SlurmClusterResolver", _SLURM),
        ("SageMakerClusterResolver", _SAGEMAKER),
        ("KubernetesClusterResolver", _KUBERNETES),
        ("validate_cluster_spec", _VALIDATED),
    )
    for name, departure in cases.items()
}
