"""The error of code that cannot be traced, but runs on values."""

from muster._errors import TraceError


class NeedsValuesError(TraceError):
    """Code that is being traced needs values in Python, which are not known yet."""
