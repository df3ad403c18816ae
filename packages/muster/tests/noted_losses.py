"""A hook that notes the loss of each step."""

from muster.estimator import SessionRunArgs, SessionRunHook


class Losses(SessionRunHook):
    """Keeps the loss of each step, in order and by its number."""

    def __init__(self):
        self.losses = []
        self.by_step = {}

    def before_run(self, run_context):
        return SessionRunArgs({"loss": "loss", "step": "global_step"})

    def after_run(self, run_context, run_values):
        loss = float(run_values.results["loss"])
        self.losses.append(loss)
        self.by_step[int(run_values.results["step"])] = loss
