"""What resolvers raise where TensorFlow raises classes that are not ValueError or TypeError."""

from muster._errors import ClusterError


class ClusterEnvironmentError(ClusterError, RuntimeError):
    """The environment does not say who is in the job, or what it says does not fit what was asked for."""


class DuplicateTaskError(ClusterError, KeyError):
    """Two resolvers give one task different addresses."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError's is in quotes, as a key is
