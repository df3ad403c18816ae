"""Cases of the oracle ``hooks.json`` from which muster departs on purpose, each with its reason.

``expect`` replaces those parts of the recorded outcome that differ; None stands for a case without a
counterpart, and a part that is "absent" is none of the outcome.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from departures import Departure

_NO_RATE = "no elapsed time gives no rate, rather than an infinite one"
_NOT_ANEW = "outputs belong to the last step; nothing is computed anew at the end"
_ALWAYS_A_STEP = "every muster program has a global step"
_NO_FEEDING = "a compiled step reads its batch and nothing else"
_NO_NEW_SESSION = "a lost server is restarted in place; no session is created anew"
_OTHERS_COUNT = "waits for steps of other processes, which exist with parameter servers only"
_FOLLOWS_CHIEF = "for workers of an asynchronous job, which exist with parameter servers only"
_FLOAT32 = "metric and threshold are both compared as float32"
_ANY_STRATEGY = "a strategy alone does not make several workers"

_DEPARTURES = {
    "StopAtStepHook/no_global_step": Departure(_ALWAYS_A_STEP, None),
    "CheckpointSaverHook/no_global_step": Departure(_ALWAYS_A_STEP, None),
    "CheckpointSaverHook/listener_stops_at_first_save_is_ignored": Departure(
        "a request to stop is followed at the first save too",
        {
            "runs": 0,
            "global_step": 0,
            "stop_requested_at_run": 0,
            "events": [["a", "begin"], ["a", "before_save", 0], ["a", "after_save", 0], ["a", "end", 0]],
            "logs": [
                ["INFO", "Create CheckpointSaverHook."],
                ["INFO", "Calling checkpoint listeners before saving checkpoint 0..."],
                ["INFO", "Saving checkpoints for 0 into <model_dir>/model.ckpt."],
                ["INFO", "Calling checkpoint listeners after saving checkpoint 0..."],
                [
                    "INFO",
                    "A CheckpointSaverListener requested that training be stopped. "
                    "listener: <canned listener>",
                ],
            ],
            "checkpoints_on_disk": [0],
        },
    ),
    "StepCounterHook/no_time_passes": Departure(_NO_RATE, {"events": [], "logs": []}),
    "LoggingTensorHook/at_end_only": Departure(_NOT_ANEW, {"logs": [["INFO", "d = 6"]]}),
    "LoggingTensorHook/at_end_just_logged": Departure(
        _NOT_ANEW,
        {"logs": [["INFO", "d = 0"], ["INFO", "d = 6 (3.000 sec)"], ["INFO", "d = 6 (0.000 sec)"]]},
    ),
    "LoggingTensorHook/unknown_name": Departure(
        "there is no graph; the message lists the names there are",
        {"error": {"type": "KeyError", "message": "\"There is no output or variable 'nope'."}},
    ),
    "SummarySaverHook/every_3_steps_of_2": Departure(
        "the step is known exactly: three steps after the second is due at the sixth",
        {
            "events": [
                ["session_log", "START", 2],
                ["summary", "v", 0.0, 2],
                ["summary", "v", 4.0, 6],
                ["summary", "v", 8.0, 10],
                ["flush"],
            ]
        },
    ),
    "SummarySaverHook/two_summaries": Departure(
        "a tag is written once a step",
        {
            "events": [
                ["session_log", "START", 1],
                ["summary", "v", 0.0, 1],
                ["summary", "v", 2.0, 3],
                ["flush"],
            ]
        },
    ),
    "FinalOpsHook/feed": Departure(_NO_FEEDING, None),
    "FinalOpsHook/out_of_range": Departure("reading values reads no input", None),
    "FeedFnHook/*": Departure(_NO_FEEDING, None),
    "GlobalStepWaiterHook/*": Departure(_OTHERS_COUNT, None),
    "ProfilerHook/*": Departure("jax.profiler writes traces of its own form", None),
    "StopAtCheckpointStepHook/*": Departure(_FOLLOWS_CHIEF, None),
    "make_stop_at_checkpoint_step_hook/*": Departure(_FOLLOWS_CHIEF, None),
    "lifecycle/raise_AbortedError_restarts_the_session": Departure(_NO_NEW_SESSION, None),
    "lifecycle/raise_UnavailableError_restarts_the_session": Departure(_NO_NEW_SESSION, None),
    "make_early_stopping_hook/type_worker": Departure(_FOLLOWS_CHIEF, None),
    "make_early_stopping_hook/one_device_strategy_default": Departure(
        _ANY_STRATEGY, {"value": {"type": "_StopOnPredicateHook"}, "error": "absent"}
    ),
    "make_early_stopping_hook/one_device_strategy_steps": Departure(
        _ANY_STRATEGY, {"value": {"type": "_StopOnPredicateHook"}}
    ),
    "make_early_stopping_hook/not_an_estimator": Departure(
        "the type has another name",
        {
            "error": {
                "type": "TypeError",
                "message": "`estimator` must have type `muster.estimator.Estimator`. Got: <class 'str'>",
            }
        },
    ),
    "stop_if_no_decrease_hook/nan_first_never_beaten": Departure(
        "any number beats NaN", {"value": False, "logs": []}
    ),
    "stop_if_no_decrease_hook/metric_missing": Departure(
        "the message says what there is",
        {"error": {"type": "KeyError", "message": '"No evaluation in <model_dir>/eval has a metric '}},
    ),
    "stop_if_no_decrease_hook/metric_missing_in_one_evaluation": Departure(
        "evaluations without the metric do not count",
        {
            "error": "absent",
            "value": True,
            "logs": [
                [
                    "INFO",
                    'No decrease in metric "loss" for 20 steps, which is greater than or equal to max steps '
                    "(20) configured for early stopping.",
                ]
            ],
        },
    ),
    "stop_if_no_decrease_hook/damaged_file": Departure(
        "a record that is not there in full is one that is being written", {"logs": []}
    ),
    "stop_if_lower_hook/stored_as_float32": Departure(_FLOAT32, {"value": False, "logs": []}),
    "stop_if_higher_hook/stored_as_float32": Departure(_FLOAT32, {"value": False, "logs": []}),
    "stop_if_higher_hook/threshold_none": Departure(
        "refused when the hook is made",
        {"error": {"type": "TypeError", "message": "`threshold` must be a number, got None."}},
    ),
    "early_stopping_run/worker_hook_on_a_fresh_model": Departure(_FOLLOWS_CHIEF, None),
    "InMemoryEvaluatorHook/*": Departure(
        "not offered: train_and_evaluate evaluates after each checkpoint", None
    ),
}


def departure_of(case_name: str) -> Departure | None:
    """The departure that applies to a case, if any."""
    return next((found for pattern, found in _DEPARTURES.items() if fnmatchcase(case_name, pattern)), None)
