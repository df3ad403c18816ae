"""How hooks write summaries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from muster.estimator.session._session import Session
from muster.summary import EventFileWriter, SessionLog


class SummaryWriter(Protocol):
    """What a hook needs of a writer; :class:`muster.summary.EventFileWriter` is one."""

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers of one step.

        Args:
            values: Tag -> number.
            step: The global step they belong to.
        """

    def add_session_log(self, status: SessionLog, step: int) -> None:
        """Write that training goes on from a step.

        Args:
            status: START.
            step: From this step on, TensorBoard drops what earlier files say.
        """

    def flush(self) -> None:
        """Hand to the operating system what has been written."""


def open_writer(
    session: Session, writer: SummaryWriter | None, output_dir: str | os.PathLike[str] | None
) -> SummaryWriter | None:
    """The writer that a hook was given, or one of its own that is closed with the session.

    Args:
        session: The session that is beginning.
        writer: As the hook was given it; its giver closes it.
        output_dir: Folder for a writer of the hook's own.

    Returns:
        The writer, or None if neither was given.
    """
    if writer is None and output_dir is not None:
        return session.resources.enter_context(EventFileWriter(output_dir))
    return writer
