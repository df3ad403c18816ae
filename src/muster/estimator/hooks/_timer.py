"""When something that happens every so often is due."""

from __future__ import annotations

from muster.estimator.session import _clock


class SecondOrStepTimer:
    """Says when something is due that happens every N steps or every N seconds.

    The first question is always answered with yes, and no step is answered with yes twice.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``SecondOrStepTimer``.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        """Set the period.

        Args:
            every_secs: Period in seconds.
            every_steps: Period in steps. Exactly one of the two.

        Raises:
            ValueError: None or both are given.
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
        """Forget what has been triggered, so that the next question is answered with yes."""
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at this step.

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
            return _clock.now() >= self._last_time + self._every_secs
        return False

    def steps_until_due(self, step: int) -> int | None:
        """How many steps after this one it is due; None if time says so.

        Args:
            step: The current step.
        """
        if self._last_step is None:
            return 1
        return None if self._every_steps is None else max(1, self._last_step + self._every_steps - step)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it happened at this step, now.

        Args:
            step: The current step.

        Returns:
            Seconds and steps since the time before; (None, None) the first time.
        """
        now = _clock.now()
        last_step, last_time = self._last_step, self._last_time
        self._last_step, self._last_time = step, now
        return (None, None) if last_step is None else (now - last_time, step - last_step)

    def last_triggered_step(self) -> int | None:
        """The step at which it last happened, or None."""
        return self._last_step
