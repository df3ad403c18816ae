"""Summaries that a model_fn writes by a writer of its own: all are in the file when training ends."""

from linear import estimator, model_fn, train_input

import muster
from muster import summary


def test_the_last_steps_are_written_when_training_ends(tmp_path):
    writer = summary.create_file_writer(tmp_path / "own", flush_millis=10**9)

    def with_summaries(features, labels, mode):
        step = muster.get_or_create_global_step().value
        spec = model_fn(features, labels, mode)
        with writer.as_default():
            summary.scalar("loss", spec.loss, step=step)
        return spec

    estimator(tmp_path / "model", with_summaries, save_summary_steps=0).train(train_input, max_steps=20)
    assert [event.step for event in summary.read_events(tmp_path / "own")] == [*range(20)]
