"""Where muster departs from exporters.json on purpose."""

from departures import Departure, Json, error, named

_FAILED = "An export that failed leaves no folder, and no model that is the best."
_RESTARTED = "What was exported before a restart is still the best after it."


def _keeps_fraction(asked: Json, expect: Json) -> Json | None:
    count = asked.get("kwargs", {}).get("exports_to_keep")
    if not isinstance(count, float) or count.is_integer() or "value" not in expect:
        return None
    return error("ValueError", "exports_to_keep must be an integer")


def _without_temporary(asked: Json, expect: Json) -> Json | None:
    """Leave out the folders of exports that failed."""
    before = asked.get("folders_before", ())
    calls = [
        call
        | {
            "folders": call["folders"]
            and [name for name in call["folders"] if not name.startswith("temp-") or name in before]
        }
        for call in expect.get("calls", ())
    ]
    return expect | {"calls": calls} if calls and calls != expect["calls"] else None


def _failure_is_not_best(asked: Json, expect: Json) -> Json:
    """Export the third result, which is better than the first: the second was not exported."""
    failed_first, failed, _, last = expect["calls"]
    stamps = ["1700000001", "1700000003", "1700000004"]
    third = {"returned": {"$bytes": stamps[1]}, "returned_type": "bytes", "folders": stamps[:2]}
    last = last | {"returned": {"$bytes": stamps[2]}, "folders": stamps}
    logs = [*expect["logs"], ["INFO", "Performing best model export."]]
    return expect | {
        "calls": [failed_first, failed, third, last],
        "folders_with_a_model": stamps,
        "logs": logs,
    }


def _first_without_loss(asked: Json, expect: Json) -> Json | None:
    """Refuse the first result, and export the second."""
    refused = error("ValueError", "eval_result cannot be empty or no loss is found in it.")
    return expect | {"calls": [refused | {"folders": None}, expect["calls"][0]]}


def _restarted(asked: Json, expect: Json) -> Json:
    """Export nothing after the restart, since all is worse than before."""
    first = expect["calls"][0]
    nothing = {"returned": None, "returned_type": "NoneType", "folders": first["folders"]}
    loading, performing = expect["logs"][:2]
    return expect | {
        "calls": [first, nothing, nothing],
        "logs": [loading, performing, loading],
        "folders_with_a_model": first["folders"],
    }


def _just_written_stays(asked: Json, expect: Json) -> Json | None:
    """Keep what was written last beside folders of the future."""
    before = asked.get("folders_before", [])
    calls = []
    for call in expect.get("calls", ()):
        returned = call.get("returned")
        if returned is None or returned["$bytes"] in call["folders"]:
            return None
        calls.append(call | {"folders": sorted([*before, returned["$bytes"]])})
    written = [calls[-1]["returned"]["$bytes"]] if calls else []
    return expect | {"calls": calls, "folders_with_a_model": written} if calls else None


def _nan_is_beaten(asked: Json, expect: Json) -> Json | None:
    best, current = asked.get("best") or {}, asked.get("current") or {}
    nan = {"$float": "nan"}
    return {"value": True} if best.get("loss") == nan and current.get("loss", nan) != nan else None


EXPORTERS = (
    Departure("Half a folder cannot be kept.", _keeps_fraction),
    Departure(_FAILED, _without_temporary),
    named("BestExporter/failed_export_still_counts_as_best", Departure(_FAILED, _failure_is_not_best)),
    named(
        "BestExporter/loss_missing_in_first",
        Departure(
            "A result that nothing can be compared with must not become the best.", _first_without_loss
        ),
    ),
    named("BestExporter/restart_same_model_new_exporter", Departure(_RESTARTED, _restarted)),
    Departure("An exporter must not delete the model that it has just written.", _just_written_stays),
    Departure("A model whose loss is not a number is not the best for ever.", _nan_is_beaten),
)
