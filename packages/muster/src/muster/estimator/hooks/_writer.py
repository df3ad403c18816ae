"""The summary writer of a hook: the one that it was given, or a new one."""

import os
from collections.abc import Mapping
from typing import Any, Protocol

from muster.estimator.session._session import Session
from muster.summary import EventFileWriter, SessionLog


class SummaryWriter(Protocol):
    """Takes summaries, as `muster.summary.EventFileWriter` does."""

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers of one step.

        Args:
            values: Tag -> number.
            step: The global step of the numbers.
        """

    def add_histogram(self, tag: str, values: Any, step: int, *, buckets: int) -> None:
        """Write how the values of an array are distributed; asked for only where a step has histograms."""

    def add_image(self, tag: str, images: Any, step: int, *, max_outputs: int) -> None:
        """Write images, of shape (batch, height, width, channels); asked for only where a step has some."""

    def add_text(self, tag: str, text: str, step: int) -> None:
        """Write a text; asked for only where a step has some."""

    def add_session_log(self, status: SessionLog, step: int) -> None:
        """Write a status of the training, such as that it starts.

        Args:
            status: With START, TensorBoard drops what earlier files hold of this step and later ones.
            step: The global step.
        """

    def flush(self) -> None:
        """Flush what was written to the file."""


def open_writer(
    session: Session, writer: SummaryWriter | None, output_dir: str | os.PathLike[str] | None
) -> SummaryWriter | None:
    """Return the writer that a hook was given, else open one that is closed with the session.

    Args:
        session: The session that begins.
        writer: The hook's argument, which the caller closes.
        output_dir: The folder for a new writer.

    Returns:
        The writer; None without a writer and a folder.
    """
    if writer is None and output_dir is not None:
        return session.resources.enter_context(EventFileWriter(output_dir))
    return writer
