"""Folders of exported models, named by the second in which they were begun."""

import logging
import os

from muster._errors import SavedModelError
from muster._paths import local_path
from muster.estimator.session import clock

_log = logging.getLogger(__name__)

_ATTEMPTS = 10


def timestamped_folder(base: str | bytes | os.PathLike[str]) -> str:
    """Return the path of a new folder below a base, whose name is the time in seconds since the epoch.

    If there is one of that name, it waits for the next second.

    Raises:
        SavedModelError: There has been one in each of ten seconds.

    Source: ``get_timestamped_export_dir`` (tensorflow/python/saved_model/model_utils/export_utils.py).
    """
    base = local_path(base)
    for attempt in range(1, _ATTEMPTS + 1):
        path = os.path.join(base, str(int(clock.date())))
        if not os.path.lexists(path):
            return path
        _log.warning("Directory %s already exists; retrying (attempt %d/%d)", path, attempt, _ATTEMPTS)
        clock.sleep(1)
    raise SavedModelError(
        f"Failed to obtain a unique export directory name after {_ATTEMPTS} attempts. There is a folder for "
        f"each second in {base}. Does the clock stand still, or do others export there?"
    )
