"""The hook by which Estimators take turns."""

import time

from bench._peers._turns import CHECK_STEPS, next_turn, ready, steps, turn_took


def turns_hook(tf, find_loss, packages):
    """Return a hook that reads the first losses, then the loss of each turn's last step, which waits for it.

    Args:
        tf: TensorFlow, or muster in its place.
        find_loss: Called before the session starts; returns what to fetch.
        packages: The packages that compute.
    """

    class Turns(tf.estimator.SessionRunHook):
        def begin(self):
            self.loss, self.losses, self.left = find_loss(), [], 0

        def before_run(self, run_context):
            checking = len(self.losses) < CHECK_STEPS
            return tf.estimator.SessionRunArgs(self.loss) if checking or self.left == 1 else None

        def after_run(self, run_context, run_values):
            if run_values.results is None:
                self.left -= 1
                return
            if self.left:
                turn_took(time.perf_counter() - self.began)
            else:
                self.losses.append(run_values.results)
                if len(self.losses) < CHECK_STEPS:
                    return
                ready(self.losses, *packages)
            if not next_turn():
                run_context.request_stop()
            self.left, self.began = steps, time.perf_counter()

    return Turns()
