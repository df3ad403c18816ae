"""A timer for what hooks do every N steps or seconds."""

from muster.estimator.session import clock


class SecondOrStepTimer:
    """Tells at which steps something is due that is done every N steps or every N seconds.

    It is due at the first step that the timer is asked about, and never twice at one step.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``SecondOrStepTimer``.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        """Choose the period.

        Args:
            every_secs: Period in seconds.
            every_steps: Period in steps. Exactly one of the two.

        Raises:
            ValueError: Not exactly one of the two is given.
        """
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError(
                "Can not provide both every_secs and every_steps. "
                f"Got {every_secs=} and {every_steps=}: leave one of them None."
            )
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """Forget when it last happened, so that it is due at once."""
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Return whether it is due at this step.

        Args:
            step: The current step.
        """
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._every_steps is not None:
            return step >= self._last_step + self._every_steps
        if self._every_secs is not None:
            return clock.now() >= self._last_time + self._every_secs
        return False

    def steps_until_due(self, step: int) -> int | None:
        """Return in how many steps it is due; None if the period is in seconds.

        Args:
            step: The current step.
        """
        if self._last_step is None:
            return 1
        return None if self._every_steps is None else max(1, self._last_step + self._every_steps - step)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it happens now, at this step.

        Args:
            step: The current step.

        Returns:
            Seconds and steps since the last time; (None, None) the first time.
        """
        now = clock.now()
        last_step, last_time = self._last_step, self._last_time
        self._last_step, self._last_time = step, now
        return (None, None) if last_step is None else (now - last_time, step - last_step)

    def last_triggered_step(self) -> int | None:
        """Return the step at which it last happened, or None."""
        return self._last_step
