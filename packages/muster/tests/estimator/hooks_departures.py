"""Where muster departs from hooks.json on purpose."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from departures import Departure, Json, absent, error

_CHIEF_STOPS = "Beside parameter servers the chief's end ends the workers; those in step decide together."


def _hooks(asked: Json, kind: str) -> list[Json]:
    """Return the hooks of a kind that a case runs."""
    return [hook for hook in asked.get("hooks", ()) if hook["kind"] == kind]


def _runs(*kinds: str) -> Callable[[Json], bool]:
    return lambda asked: any(_hooks(asked, kind) for kind in kinds)


def _message(expect: Json) -> str:
    return str(expect.get("error", {}).get("message", ""))


def _task_type(asked: Json) -> str | None:
    kind: str | None = json.loads(asked.get("env", {}).get("TF_CONFIG", "{}")).get("task", {}).get("type")
    return kind


def _stopped_at_first_save(asked: Json, expect: Json) -> Json | None:
    start, hooks = asked.get("start_step", 0), _hooks(asked, "CheckpointSaverHook")
    listeners = [each for hook in hooks for each in hook.get("listeners", ())]
    stopping = [each for each in listeners if each.get("stop_at", start + 1) <= start or each.get("return")]
    if not stopping or "error" in expect:
        return None
    names = [each["name"] for each in listeners]
    calls = [[name, call, start] for call in ("before_save", "after_save", "end") for name in names]
    said = "A CheckpointSaverListener requested that training be stopped. listener: <canned listener>"
    saved = f"Calling checkpoint listeners after saving checkpoint {start}..."
    lines = expect["logs"][: expect["logs"].index(["INFO", saved]) + 1]
    return expect | {
        "runs": 0,
        "global_step": start,
        "stop_requested_at_run": 0,
        "events": [*([name, "begin"] for name in names), *calls],
        "logs": lines + [["INFO", said]] * len(stopping),
        "checkpoints_on_disk": [start],
    }


def _no_rate(asked: Json, expect: Json) -> Json | None:
    if not _hooks(asked, "StepCounterHook") or asked.get("secs_per_run") != 0:
        return None
    lines = [line for line in expect["logs"] if not line[1].endswith(": inf")]
    events = [event for event in expect.get("events", ()) if {"$float": "inf"} not in event]
    return expect | {"events": events, "logs": lines}


def _last_outputs(asked: Json, expect: Json) -> Json | None:
    tensors: Json = {}
    for hook in _hooks(asked, "LoggingTensorHook"):
        given = hook["kwargs"]["tensors"]
        if hook["kwargs"].get("at_end") and isinstance(given, dict):
            tensors |= given
    after = expect.get("global_step")
    before = after - asked.get("increment", 1) if after else None
    if before is None or not expect["logs"] or "double" not in tensors.values():
        return None
    *others, (level, last) = expect["logs"]
    for name, tensor in tensors.items():
        if tensor == "double":
            last = re.sub(rf"\b{name} = {2 * after}\b", f"{name} = {2 * before}", last)
    return expect | {"logs": [*others, [level, last]]}


def _unknown_name(asked: Json, expect: Json) -> Json | None:
    found = re.match(r"\"?The name '(.+?)(:\d+)?' refers to a Tensor which does not exist", _message(expect))
    return expect | error("KeyError", f"\"There is no output or variable '{found[1]}'.") if found else None


def _due_steps(asked: Json, expect: Json) -> Json | None:
    hooks, increment = _hooks(asked, "SummarySaverHook"), asked.get("increment", 1)
    if not hooks or increment == 1 or "error" in expect:
        return None
    every, last = hooks[0]["kwargs"]["save_steps"], None
    first = asked.get("start_step", 0) + increment
    events: list[Any] = [["session_log", "START", first]]
    for step in range(first, expect["global_step"] + 1, increment):
        if last is None or step >= last + every:
            last = step
            events.append(["summary", "v", float(step - increment), step])
    return expect | {"events": [*events, ["flush"]]}


def _written_once(asked: Json, expect: Json) -> Json | None:
    if not any(hook.get("two") for hook in _hooks(asked, "SummarySaverHook")):
        return None
    events = expect["events"]
    return expect | {"events": [each for at, each in enumerate(events) if each not in events[:at]]}


def _strategy_alone(asked: Json, expect: Json) -> Json | None:
    if asked.get("train_distribute", "MultiWorkerMirroredStrategy").startswith("MultiWorker"):
        return None
    others = "error" in expect and "when using MultiWorkerMirroredStrategy" not in _message(expect)
    return None if others else {"value": {"type": "_StopOnPredicateHook"}}


def _name_of_type(asked: Json, expect: Json) -> Json | None:
    if "`tf.estimator.Estimator`" not in _message(expect):
        return None
    return error("TypeError", _message(expect).replace("`tf.", "`muster."))


def _evaluations(asked: Json) -> dict[int, Json]:
    """Return the metrics of a case by step, those of the same step together."""
    found: dict[int, Json] = {}
    files = asked["event_files"]
    if asked.get("damage_first_file"):
        files = [files[0][:-1], *files[1:]]
    for step, metrics in (each for file in files for each in file):
        found.setdefault(step, {}).update(metrics)
    return dict(sorted(found.items()))


def _stop_if(asked: Json, expect: Json) -> Json | None:
    """Decide as muster does."""
    function, kwargs = asked.get("function", ""), asked.get("kwargs", {})
    if not function.startswith("stop_if_") or "event_files" not in asked:
        return None
    found, name = _evaluations(asked), kwargs["metric_name"]
    refused = not isinstance(kwargs.get("threshold", 0), int | float)
    if refused or not any(name in metrics for metrics in found.values()):
        return None
    sign = 1 if function in ("stop_if_no_increase_hook", "stop_if_higher_hook") else -1
    word = "increase" if sign == 1 else "decrease"
    best: tuple[Any, int] | None = None
    lines = []
    for step, metrics in found.items():
        if step < (kwargs.get("min_steps") or 0) or name not in metrics:
            continue
        given = metrics[name]
        value = np.float32(given["$float"] if isinstance(given, dict) else given)
        if "threshold" in kwargs:
            if sign * value > sign * np.float32(kwargs["threshold"]):
                return None
            continue
        if best is None or np.isnan(best[0]) or sign * value > sign * best[0]:
            best = value, step
        most = kwargs[f"max_steps_without_{word}"]
        if step - best[1] >= most:
            lines = [
                f'No {word} in metric "{name}" for {step - best[1]} steps, which is greater than or equal to '
                f"max steps ({most}) configured for early stopping."
            ]
            break
    if bool(lines) is expect.get("value"):
        return None
    return {"value": bool(lines), "logs": [["INFO", line] for line in lines]}


def _being_written(asked: Json, expect: Json) -> Json | None:
    if not asked.get("damage_first_file"):
        return None
    lines = [line for line in expect["logs"] if not line[1].startswith("Skipping rest of the file")]
    return expect | {"logs": lines}


def _stops_in_step(asked: Json, expect: Json) -> Json | None:
    if asked.get("function") != "make_stop_at_checkpoint_step_hook" or _task_type(asked) != "worker":
        return None
    return {"value": {"type": "StopAtStepHook"}}


def _timeline_folders(asked: Json, expect: Json) -> Json | None:
    if not _runs("ProfilerHook")(asked):
        return None
    logs = [[level, text.replace(".json'", "'")] for level, text in expect["logs"]]
    return expect | {"logs": logs, "timelines": [name.removesuffix(".json") for name in expect["timelines"]]}


DEPARTURES = (
    absent("Every program of muster has a global step.", lambda asked: asked.get("global_step") is False),
    absent(
        "A compiled step reads its batch and nothing else: there is no feeding.",
        lambda asked: _runs("FeedFnHook")(asked) or any("feed" in hook for hook in asked.get("hooks", ())),
    ),
    absent(
        "Reading values reads no input.",
        lambda asked: any(hook.get("ops") == "fails" for hook in _hooks(asked, "FinalOpsHook")),
    ),
    absent(
        _CHIEF_STOPS,
        lambda asked: (
            asked.get("function") == "make_early_stopping_hook"
            and _task_type(asked) == "worker"
            or asked.get("hook") == "_CheckForStoppingHook"
        ),
    ),
    Departure("Workers without parameter servers train in step, and stop together.", _stops_in_step),
    Departure("jax.profiler writes a folder of files.", _timeline_folders),
    absent(
        "A lost server is restarted in place; no session is created anew.",
        lambda asked: any(
            hook.get("raise") in ("AbortedError", "UnavailableError") for hook in asked.get("hooks", ())
        ),
    ),
    Departure("A request to stop is followed at the first save too.", _stopped_at_first_save),
    Departure("No elapsed time gives no rate, rather than an infinite one.", _no_rate),
    Departure("Outputs belong to the last step; nothing is computed anew at the end.", _last_outputs),
    Departure("There is no graph; the message lists the names there are.", _unknown_name),
    Departure(
        "The step is known exactly: three steps after the second is due at the sixth, in steps of two.",
        _due_steps,
    ),
    Departure("A tag is written once a step.", _written_once),
    Departure("A strategy alone does not make several workers.", _strategy_alone),
    Departure("The type has another name.", _name_of_type),
    Departure("A record that is not there in full is one that is being written.", _being_written),
    Departure(
        "Any number beats NaN; metric and threshold are both compared as float32; an evaluation without the "
        "metric does not count.",
        _stop_if,
    ),
)
