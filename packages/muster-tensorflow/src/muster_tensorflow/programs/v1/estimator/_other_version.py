"""Warn where a program for TensorFlow 1 builds a canned model of TensorFlow 2, which trains otherwise."""

import inspect
import logging
import sys
from types import FrameType, ModuleType

from muster.estimator import Estimator

_log = logging.getLogger(__name__)
_PACKAGE = "muster_tensorflow"
_OURS = "muster.", f"{_PACKAGE}."
_warned: set[tuple[str, str]] = set()


def warn_of_other_version(estimator: Estimator) -> None:
    """Warn, once a class and file, of a canned model of TensorFlow 2 in a program for TensorFlow 1.

    A program is for TensorFlow 1 if one of its modules imports ``compat.v1`` as ``tf`` or ``tensorflow``. The
    names ``tf1`` and the like are of programs that tell the two apart.
    """
    kinds = [kind for kind in type(estimator).__mro__ if kind.__module__.startswith(_OURS)]
    kind = kinds[0].__name__
    if kinds[0].__module__.startswith(f"{_PACKAGE}.") or not hasattr(sys.modules[__package__], kind):
        return
    frame = _users_frame()
    first = sys.modules.get(f"{_PACKAGE}.compat.v1")
    if frame is None or first is None or not _imports_version_2(frame):
        return
    where = frame.f_code.co_filename
    other = next((module for module in _modules() if _is_for(first, module)), None)
    if other is None or (kind, where) in _warned:
        return
    _warned.add((kind, where))
    _log.warning(
        "%s:%d builds TensorFlow 2's %s, which averages the losses of a batch, in a program for TensorFlow "
        "1, whose %s adds them up: gradients are as many times smaller as a batch has examples. That it is "
        "for TensorFlow 1 says %s. Import muster_tensorflow.compat.v1 as tf in both: `muster port --write` "
        "does so for files that are named together.",
        *(where, frame.f_lineno, kind, kind, getattr(other, "__file__", None) or other.__name__),
    )


def _modules() -> list[ModuleType]:
    return list(sys.modules.values())


def _users_frame() -> FrameType | None:
    frame = inspect.currentframe()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith(_OURS):
        frame = frame.f_back
    return frame


def _imports_version_2(frame: FrameType) -> bool:
    two = [sys.modules[_PACKAGE], sys.modules[f"{_PACKAGE}.estimator"]]
    return any(value is each for value in list(frame.f_globals.values()) for each in two)


def _is_for(first: ModuleType, module: object) -> bool:
    names = getattr(module, "__dict__", {})
    return any(names.get(name) is first for name in ("tf", "tensorflow"))
