"""Where muster departs from run_config.json, specs.json and train_and_evaluate_local.json on purpose."""

import json
import math
import re
from typing import Any

from departures import NOTHING, Departure, Json, error, named

_NUMBERS = "A count is an integer, and a time a number: not True or NaN; fractions of steps are rounded up."

# What is left out of what TensorFlow did, whatever the case.
LEFT_OUT = {
    "session_config_device_filters": "JAX has no sessions whose view of the devices could be filtered.",
    "distribute_coordinator_mode": "muster has no Distribute Coordinator.",
    "slept": "Tasks may start in any order, so no worker waits for the chief.",
    "listed": "There is no list of checkpoints beside the directories themselves.",
}


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) and not value.is_integer()


def _numbers_of(asked: Json) -> Json:
    """Return the arguments of a case, and those that replace them."""
    given = (asked.get("kwargs") or {}) | (asked.get("replace") or {})
    return {name: float("nan") if value == {"$float": "nan"} else value for name, value in given.items()}


# RunConfig.

_COUNTS = ("save_summary_steps", "save_checkpoints_steps", "keep_checkpoint_max", "log_step_count_steps")
_SECONDS = ("save_checkpoints_secs", "keep_checkpoint_every_n_hours", "session_creation_timeout_secs")


def _tf_config(asked: Json) -> Json:
    text = asked.get("env", {}).get("TF_CONFIG")
    try:
        config = json.loads(text or "{}")
    except json.JSONDecodeError:
        return {}
    return config if isinstance(config, dict) else {}


def _task(asked: Json) -> Json:
    task = _tf_config(asked).get("task")
    return task if isinstance(task, dict) else {}


def _index_not_whole(asked: Json, expect: Json) -> Json | None:
    index = _task(asked).get("index")
    if not isinstance(index, bool) and not _is_fraction(index) or "error" in expect:
        return None
    return error("ValueError", f"must be an integer, given: {index!r}")


def _fields(asked: Json, expect: Json) -> Json | None:
    if "value" not in expect or "class" in asked:
        return None
    for name, value in _numbers_of(asked).items():
        if name == "tf_random_seed" and isinstance(value, bool):
            return error("ValueError", "tf_random_seed must be integer")
        if name == "experimental_max_worker_delay_secs" and isinstance(value, bool):
            return error("ValueError", "experimental_max_worker_delay_secs must be an integer if set")
        if name in _COUNTS and _is_fraction(value):
            if name != "keep_checkpoint_max":
                return {"value": {name: math.ceil(value)}, "partial": True}
            return error("ValueError", f"{name} must be an integer, given: {value}")
        if name in (*_COUNTS, *_SECONDS) and isinstance(value, bool):
            return error("TypeError", f"{name} must be a number, given: {value}")
    return None


def _derived(cluster: Json, task_type: str, index: int, master: str | None) -> Json:
    """Return what RunConfig derives for one task of a cluster."""
    chief = next((job for job in ("chief", "master") if job in cluster), None)
    jobs = [job for job in (chief, "worker", "ps") if job in cluster]
    jobs += [job for job in cluster if job not in jobs and job != "evaluator"]
    tasks = [(job, at) for job in jobs for at in range(len(cluster[job]))]
    outside = task_type == "evaluator"
    return {
        "task_type": task_type,
        "task_id": index,
        "is_chief": task_type == chief or chief is None and (task_type, index) == ("worker", 0),
        "num_worker_replicas": 0 if outside else len(cluster.get("worker", ())) + (chief is not None),
        "num_ps_replicas": 0 if outside else len(cluster.get("ps", ())),
        "global_id_in_cluster": None if outside else tasks.index((task_type, index)),
        "cluster_spec": {} if outside else cluster,
        "master": master or ("" if outside else f"grpc://{cluster[task_type][index]}"),
    }


def _null_index(asked: Json, expect: Json) -> Json | None:
    task = _task(asked)
    if "index" not in task or task["index"] is not None or _tf_config(asked).get("cluster"):
        return None
    return {"value": {"task_id": 0, "is_chief": True}, "partial": True}


def _null_master(asked: Json, expect: Json) -> Json | None:
    config, task = _tf_config(asked), _task(asked)
    if config.get("session_master", "") is not None or "value" not in expect:
        return None
    cluster = config.get("cluster", {})
    master = f"grpc://{cluster[task['type']][task['index']]}" if len(sum(cluster.values(), [])) > 1 else ""
    return expect | {"value": expect["value"] | {"master": master}}


def _empty_job(asked: Json, expect: Json) -> Json | None:
    config, task = _tf_config(asked), _task(asked)
    refused = _message(expect).startswith("max() arg is an empty sequence")
    if not refused or task["index"] not in range(len(config["cluster"].get(task["type"], ()))):
        return None
    ours = _derived(config["cluster"], task["type"], task["index"], config.get("session_master"))
    del ours["cluster_spec"]  # which has no tasks for the job, in whatever form
    return {"value": ours, "partial": True}


def _address_twice(asked: Json, expect: Json) -> Json | None:
    seen: dict[Any, str] = {}
    cluster = _tf_config(asked).get("cluster")
    for job, tasks in cluster.items() if isinstance(cluster, dict) and "value" in expect else ():
        for index, address in tasks.items() if isinstance(tasks, dict) else enumerate(tasks):
            if address in seen:
                return error(
                    "ValueError", f"gives the address {address!r} to {seen[address]} and {job} {index}"
                )
            seen[address] = f"{job} {index}"
    return None


def _path(asked: Json, expect: Json) -> Json | None:
    """Compare with the same text, for a model_dir of bytes, or one that a copy is given as a path."""
    given = _numbers_of(asked).get("model_dir")
    if not isinstance(given, dict):
        return None
    ((tag, text),) = given.items()
    if "value" in expect:
        return expect | {"value": expect["value"] | {"model_dir": text}}
    if tag == "$bytes" and _tf_config(asked).get("model_dir") == text:
        return {"value": {"model_dir": text}, "partial": True}
    said = _message(expect).replace(repr(text.encode()), text)
    return error(expect["error"]["type"], said) if tag == "$bytes" else None


def _task_under_strategy(asked: Json, expect: Json) -> Json | None:
    config, task = _tf_config(asked), _task(asked)
    cluster = config.get("cluster")
    if not cluster or "train_distribute" not in asked.get("kwargs", {}) or "value" not in expect:
        return None
    if task.get("type") is None:
        return error("ValueError", "task type must be set")
    for job in ("chief", "master"):
        if len(cluster.get(job, ())) > 1:
            return error("ValueError", f'must have only one "{job}" node')
    if task.get("index") is None:
        return error("ValueError", "task index must be set")
    job, index = task["type"], task["index"]
    if job != "evaluator" and index not in range(len(cluster.get(job, ()))):
        return error("ValueError", f"{index} is not a valid task_id for task_type {job}")
    ours = _derived(cluster, job, index, config.get("session_master")) | {"service": config.get("service")}
    value = {key: ours.get(key, theirs) for key, theirs in expect["value"].items()}
    return None if value == expect["value"] else {"value": value}


def _only_workers(asked: Json, expect: Json) -> Json | None:
    """Expect a place in a cluster without a chief and without parameter servers."""
    config, task = _tf_config(asked), _task(asked)
    if not _message(expect).startswith('If "cluster" is set in TF_CONFIG, it must have one "chief" node'):
        return None
    cluster = config["cluster"]
    if list(cluster) != ["worker"] or "value" in expect:
        return None
    ours = _derived(cluster, task["type"], task["index"], None)
    return {"value": ours | ({"master": ""} if len(cluster["worker"]) == 1 else {}), "partial": True}


def _remote_cluster(asked: Json, expect: Json) -> Json | None:
    both = asked.get("kwargs", {}).get("experimental_distribute") or {}
    remote = both.get("$distribute_config", {}).get("remote_cluster")
    return error("ValueError", "is not supported") if remote and "value" in expect else None


def _message(expect: Json) -> str:
    return str(expect.get("error", {}).get("message", ""))


RUN_CONFIG = (
    Departure(_NUMBERS, _index_not_whole),
    Departure(_NUMBERS, _fields),
    Departure("A null in TF_CONFIG is the same as an absent key.", _null_index),
    Departure("A null in TF_CONFIG is the same as an absent key.", _null_master),
    Departure("An empty job is no reason to fail for some of the tasks.", _empty_job),
    Departure(
        "A strategy does not change which task this is, and what is wrong with a cluster stays an error.",
        _task_under_strategy,
    ),
    Departure(
        "An Estimator without a strategy trains in step in a cluster of workers; the first is the chief.",
        _only_workers,
    ),
    Departure("A job in which two tasks have one address hangs.", _address_twice),
    Departure("A directory is text; bytes and paths would surprise whoever joins it to names.", _path),
    Departure("muster drives no cluster from outside: each task is started with TF_CONFIG.", _remote_cluster),
)

# TrainSpec, EvalSpec and EstimatorSpec.


def _unfit(asked: Json) -> Json | None:
    for name, value in _numbers_of(asked).items():
        is_count = name in ("steps", "max_steps")
        if value is None or not is_count and name not in ("start_delay_secs", "throttle_secs"):
            continue
        if isinstance(value, bool):
            return error("TypeError", f"{name} must be a number, given: {value}")
        if isinstance(value, int | float) and not (value > 0 if is_count else value >= 0):
            return error("ValueError", f"Must specify {name} >{'' if is_count else '='} 0")
        if is_count and _is_fraction(value):
            return {"value": {name: math.ceil(value)}, "partial": True}
    return None


def _specs_numbers(asked: Json, expect: Json) -> Json | None:
    of_spec = asked.get("class") in ("TrainSpec", "EvalSpec") and "value" in expect
    return _unfit(asked) if of_spec and "replace" not in asked else None


def _replaced(asked: Json, expect: Json) -> Json | None:
    of_spec = asked.get("class") in ("TrainSpec", "EvalSpec") and "value" in expect
    return _unfit(asked) if of_spec and "replace" in asked else None


def _used_up(asked: Json, expect: Json) -> Json | None:
    given = (asked.get("kwargs") or {}).get("exporters")
    if not isinstance(given, dict) or "$generator" not in given or "value" not in expect:
        return None
    exporters = [{"kind": "exporter", "name": each["$exporter"]} for each in given["$generator"]]
    return expect | {"value": expect["value"] | {"exporters": {"$tuple": exporters}}}


def _new_attribute(asked: Json, expect: Json) -> Json | None:
    if asked.get("action") != "set_attribute" or "value" not in expect or asked["field"] in expect["value"]:
        return None
    return error("AttributeError", asked["field"])


def _unknown_mode(asked: Json, expect: Json) -> Json | None:
    mode = (asked.get("kwargs") or {}).get("mode")
    wrong = asked.get("class") == "EstimatorSpec" and mode not in ("train", "eval", "infer")
    return error("ValueError", "mode must be one of") if wrong and "value" in expect else None


def _fresh_metric(asked: Json, expect: Json) -> Json | None:
    if not _message(expect).startswith("Please call update_state(...)"):
        return None
    return {"value": {"mode": asked["kwargs"]["mode"]}, "partial": True}


SPECS = (
    Departure(_NUMBERS, _specs_numbers),
    Departure("A copy made by _replace is checked as the original was.", _replaced),
    Departure("Validation must not lose the exporters.", _used_up),
    Departure("A misspelt attribute must not be set in silence.", _new_attribute),
    Departure("No code handles another mode.", _unknown_mode),
    Departure(
        "JAX has no graphs; it reports a value of another trace itself.",
        lambda asked, expect: NOTHING if "from the default graph" in _message(expect) else None,
    ),
    Departure("A Keras 3 metric does not record whether it was updated.", _fresh_metric),
)

# Training and evaluation.

_EMPTY = "An input without examples is a mistake, which must not pass for a result."


def _fails(expect: Json, message: str, events: int, logs: int) -> Json:
    """Return an expectation that is cut off by an error after so many events and lines."""
    cut = {"events": expect["events"][:events], "logs": expect["logs"][:logs]}
    return expect | error("ValueError", message) | cut


def _empty_train(asked: Json, expect: Json) -> Json | None:
    if asked.get("train_input", {}).get("epochs") != 0:
        return None
    nothing = {"checkpoints": {"steps_on_disk": [], "latest": None}, "files": []}
    return _fails(expect, "The input_fn for train gave no batch", 0, 3) | nothing


def _empty_eval(asked: Json, expect: Json) -> Json | None:
    if asked.get("eval_input", {}).get("epochs") != 0:
        return None
    first_eval = next(i for i, event in enumerate(expect["events"]) if event["event"] == "eval_begin")
    calls = [i for i, line in enumerate(expect["logs"]) if line[1] == "Calling model_fn."]
    files = [file for file in expect["files"] if not file.startswith("eval")]
    return _fails(expect, "The input_fn for eval gave no batch", first_eval + 1, calls[1]) | {"files": files}


def _last_loss(asked: Json, expect: Json) -> Json:
    return expect | {"logs": [*expect["logs"][:-1], ["INFO", "Loss for final step: 0.6776993."]]}


_METRICS_OF_0 = "global_step = 0, loss = 1.0062256, mean_prediction = 0.0"


def _stopped_at_0(asked: Json, expect: Json) -> Json:
    """Return the expectation with all that came of step 10 at step 0, and without steps."""
    metrics = {"values": {"global_step": 0, "loss": 1.0062256, "mean_prediction": 0.0}}
    returned = expect["returned"] | {"metrics": expect["returned"]["metrics"] | metrics}
    events = [event for event in expect["events"] if event.get("step") != 10]
    events = [event | {"checkpoint": "model.ckpt-0"} if "checkpoint" in event else event for event in events]
    events = [event | {"global_step": 0} if "global_step" in event else event for event in events]
    events = [event | {"loss": 1.0062256} if "loss" in event else event for event in events]
    lines = [message for _, message in expect["logs"]]
    asked_at = next(i for i, line in enumerate(lines) if "requested that training be stopped" in line)
    calls = [i for i, line in enumerate(lines) if line == "Calling model_fn."]
    lines = [*lines[: asked_at + 1], *lines[calls[1] : -1], "Loss for final step: None."]
    lines = [line.replace("step 10", "step 0").replace("ckpt-10", "ckpt-0") for line in lines]
    lines = [re.sub(r"global_step = 10, .*", _METRICS_OF_0, line) for line in lines]
    return expect | {
        "returned": returned,
        "events": events,
        "checkpoints": {"steps_on_disk": [0], "latest": "model.ckpt-0"},
        "logs": [["INFO", line] for line in lines],
    }


def _kept(asked: Json, expect: Json) -> Json | None:
    """Keep as many of the checkpoints as there are to be, those of earlier trainings included."""
    most = asked.get("run_config", {}).get("keep_checkpoint_max", 5)
    found = expect.get("checkpoints", {})
    if not most or not asked.get("before") or len(found["steps_on_disk"]) <= most:
        return None
    return expect | {"checkpoints": found | {"steps_on_disk": found["steps_on_disk"][-most:]}}


RUNS = (
    Departure(_EMPTY, _empty_train),
    Departure(_EMPTY, _empty_eval),
    named(
        "hook_raises_stop_iteration",
        Departure(
            "The last step has run when a hook raises after it: its loss is the final one.", _last_loss
        ),
    ),
    named(
        "listener_requests_stop_at_0",
        Departure("A listener's request to stop is followed at every save, the first too.", _stopped_at_0),
    ),
    Departure("A lower keep_checkpoint_max holds for the checkpoints that are there already.", _kept),
)


def log_line(message: str) -> str | None:
    """Return a line that TensorFlow logged as muster logs it, None if muster has no use for it."""
    if message == "Not using Distribute Coordinator." or "all_model_checkpoint_paths" in message:
        return None
    # The names of checkpoints, of the server, and of a class.
    message = message.replace("model.ckpt", "ckpt").replace("Tensorflow server", "muster server")
    return re.sub(r"<tensorflow_estimator[^>]*>", "<muster_class>", message)


_NOTHING_NEW = ("Estimator is not trained yet.", "No new checkpoint ready for evaluation.")


def evaluator_ends_at_once(
    events: list[dict[str, Any]], logs: list[list[str]]
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Leave out that TensorFlow's evaluator waits once more after its last evaluation.

    That there is no new checkpoint yet is no reason for a warning, as long as that has not lasted.
    """
    logs = [["INFO", text] if text.startswith(_NOTHING_NEW) else [level, text] for level, text in logs]
    ended = "Exiting evaluation, global_step="
    waited = "starting next eval run." in logs[-2][1] if len(logs) > 1 else False
    if logs[-1][1].startswith(ended) and waited:
        return events[:-1], [*logs[:-2], logs[-1]]
    return events, logs


def one_run_later(message: str) -> str:
    """Return a line about early stopping as it is one run later."""
    found = re.fullmatch(r"(Requesting early stopping at global step )(\d+)", message)
    return f"{found[1]}{int(found[2]) + 1}" if found else message
