"""Tell trackers that patch TensorBoard's writer, such as Weights & Biases, the directory of summaries."""

import sys


def announce(logdir: str) -> None:
    """Open and close TensorBoard's own writer for a folder, if a tracker has put one of its own in its place.

    ``wandb.init(sync_tensorboard=True)`` derives a class from ``EventFileWriter`` that notes the folder, and
    then uploads what is written there, by whomever. It leaves an event file behind that holds no events.

    Args:
        logdir: The folder, which exists.
    """
    module = sys.modules.get("tensorboard.summary.writer.event_file_writer")
    writer = getattr(module, "EventFileWriter", None)
    if writer is not None and writer.__module__ != "tensorboard.summary.writer.event_file_writer":
        writer(logdir).close()
