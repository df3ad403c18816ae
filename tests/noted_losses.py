"""A hook that notes the loss of each step."""

from muster.estimator import SessionRunArgs, SessionRunHook


class Losses(SessionRunHook):
    """Keeps the loss of each step."""

    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        return SessionRunArgs("loss")

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))
