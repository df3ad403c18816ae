"""Plan the signatures of an exported model, and their outputs."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp

from muster.data import Placeholder
from muster.estimator._estimator_spec import (
    ClassificationOutput,
    ExportOutput,
    ModeKeys,
    PredictOutput,
    RegressionOutput,
)
from muster.estimator._words import Words
from muster.estimator.export._supervised_outputs import SupervisedOutput
from muster.saved_model import CLASSIFY, EVAL, PREDICT, REGRESS, TRAIN

_log = logging.getLogger(__name__)

_SINGLE_OUTPUT = "output"
_INPUTS = "inputs"


class SignaturePlan(NamedTuple):
    """A signature of an exported model.

    Attributes:
        method_name: TensorFlow's name of what it is for.
        inputs: The placeholders that a request fills, by name.
        output: Which of the model's outputs it answers.
    """

    method_name: str
    inputs: Mapping[str, Placeholder]
    output: str


def values_of(output: ExportOutput) -> dict[str, Any]:
    """Return what a signature answers by name: arrays, or `Words`.

    Raises:
        ValueError: An answer has a dtype that the method does not have.

    Source: tensorflow/python/saved_model/model_utils/export_output.py.
    """
    match output:
        case ClassificationOutput(scores=scores, classes=classes):
            if scores is not None and not _is_float(scores):
                raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
            if classes is not None and not isinstance(classes, Words):
                raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
            return {
                name: each for name, each in (("classes", classes), ("scores", scores)) if each is not None
            }
        case RegressionOutput(value=value):
            if not _is_float(value):
                raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
            return {"outputs": value}
        case PredictOutput(outputs=outputs):
            if not isinstance(outputs, Mapping):
                return {_SINGLE_OUTPUT: outputs}
            return {
                "/".join(key) if isinstance(key, tuple) else str(key): each for key, each in outputs.items()
            }
        case SupervisedOutput():
            return output.named()
    raise ValueError(
        f"A signature answers a PredictOutput, ClassificationOutput or RegressionOutput, got {output!r}."
    )


def plan_signatures(
    outputs: Mapping[str, ExportOutput],
    receiver: Mapping[str, Placeholder],
    alternatives: Mapping[str, Mapping[str, Placeholder]] | None,
) -> dict[str, SignaturePlan]:
    """Return the signatures of a model by name: each of its outputs by each receiver that fits it.

    Args:
        outputs: What the model_fn exports, by name.
        receiver: What a request fills, by name.
        alternatives: Other ways to ask, by name, which begin the names of their signatures.

    Outputs that fit no receiver are left out, all of them if need be, as TensorFlow does.

    Source: ``build_all_signature_defs`` (tensorflow/python/saved_model/model_utils/export_utils.py).
    """
    plans: dict[str, SignaturePlan] = {}
    unfit: dict[str, str] = {}
    ways = {"": receiver, **{f"{name}:": tensors for name, tensors in (alternatives or {}).items()}}
    for prefix, tensors in ways.items():
        for name, output in outputs.items():
            try:
                plans[f"{prefix}{name}"] = _plan(name, output, tensors)
            except ValueError as exc:
                unfit[f"{prefix}{name}"] = str(exc)
    for method in (CLASSIFY, REGRESS, PREDICT, TRAIN, EVAL):
        names = [name for name, plan in plans.items() if plan.method_name == method]
        _log.info("Signatures of the export for %s: %s", method, ", ".join(names) or "none")
    for name, reason in unfit.items():
        _log.info("Signature %r is left out of the export: %s", name, reason)
    if not plans:
        _log.warning(
            "The export has no signature, so that it cannot answer: %s. Export a PredictOutput, which takes "
            "any receiver.",
            "; ".join(dict.fromkeys(unfit.values())) or "no outputs",
        )
    return plans


def _plan(name: str, output: ExportOutput, tensors: Mapping[str, Placeholder]) -> SignaturePlan:
    values_of(output)
    if isinstance(output, PredictOutput):
        return SignaturePlan(PREDICT, tensors, name)
    if isinstance(output, SupervisedOutput):
        return SignaturePlan(TRAIN if output.mode == ModeKeys.TRAIN else EVAL, tensors, name)
    kind, method = "Classification", CLASSIFY
    if isinstance(output, RegressionOutput):
        kind, method = "Regression", REGRESS
    ((_, examples),) = tensors.items() if len(tensors) == 1 else ((None, None),)
    if examples is None or examples.dtype.kind != "U":
        raise ValueError(f"{kind} input must be a single string Tensor; got {dict(tensors)}")
    return SignaturePlan(method, {_INPUTS: examples}, name)


def _is_float(value: Any) -> bool:
    return not isinstance(value, Words) and bool(jnp.issubdtype(value.dtype, jnp.floating))
