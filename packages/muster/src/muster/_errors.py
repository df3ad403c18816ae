"""The exceptions of muster, one class a condition.

    MusterError
    ├── ClusterError (ValueError)            TF_CONFIG or a cluster description is wrong
    │   ├── ClusterTypeError (TypeError)     a part of it has the wrong type
    │   ├── ClusterEnvironmentError (RuntimeError)   the environment does not describe the job
    │   ├── DuplicateTaskError (KeyError)    two resolvers give one task different addresses
    │   ├── CredentialsError                 its secret or certificates cannot be used
    │   └── PlacementError                   an engine has no place for its tasks
    ├── RosterError (RuntimeError)           the tasks of a job cannot work together
    │   ├── AddressInUseError (OSError)      another process listens at this task's address
    │   ├── MissingPeerError (TimeoutError)  a task did not come or take part in time
    │   ├── StrayPeerError                   another process answers at the address of a task
    │   │   └── AuthenticationError          it does not prove that it belongs to the job
    │   ├── MismatchError                    tasks differ in versions, cluster or program
    │   ├── PeerLostError                    a task has ended, failed or stands still
    │   │   └── PeerEndedError               it has come to its end in the ordinary way, and others have not
    │   ├── ParameterServerError             a parameter server refuses a request, or has lost its values
    │   └── JobEndedError                    the chief has ended the job
    ├── DatasetError (ValueError)            an input pipeline is wrong, or its data
    │   └── PositionError                    a saved position does not fit this pipeline
    ├── OutOfRangeError (StopIteration)      an iterator has too few elements left
    ├── CancelledError                       a scheduled function did not run, since another one failed
    ├── ClosureError (RuntimeError)          a scheduled function failed on a worker
    ├── TraceError (RuntimeError)            user code cannot become a pure step
    │   ├── VariableMismatchError (ValueError)   it creates other variables than before
    │   ├── OutsideVariableError             it uses a variable that was created outside of it
    │   └── GradientError                    the requested gradient does not exist
    ├── CheckpointError (RuntimeError)       a checkpoint cannot be written or read
    │   ├── CheckpointNotFoundError          the requested one does not exist
    │   ├── DirectoryInUseError              another process writes into the directory
    │   ├── DamagedCheckpointError           its bytes have changed since they were written
    │   └── CheckpointMismatchError          it belongs to another model
    ├── SavedModelError (RuntimeError)       a saved model cannot be written or loaded
    │   ├── SavedModelNotFoundError (FileNotFoundError)   there is none, or it is half written
    │   └── DamagedSavedModelError           its bytes have changed since they were written
    ├── PathError (ValueError)               a path is a URL of what is no file or folder here
    ├── StorageError (OSError)               an object store cannot be read or written
    ├── RequestError (ValueError)            a request to `muster serve` cannot be answered
    ├── SummaryError (RuntimeError)          an event file cannot be written or read
    ├── NanLossDuringTrainingError (RuntimeError)   the loss is not a number
    └── DownloadError (OSError)              data could not be downloaded, or is unexpected

An error that has a built-in class in TensorFlow's API has that class here, too, so that
``except ValueError`` still works. Wrong arguments are plain ``ValueError`` and ``TypeError``.
"""


class MusterError(Exception):
    """Base of every exception that muster defines.

    Attributes:
        error_code: The condition, by TensorFlow's number; 2 for others.
        node_def: None, as ``op``: no operation of a graph raised it.

    Source: tensorflow/python/framework/errors_impl.py, ``OpError``.
    """

    error_code = 2
    node_def: object = None
    op: object = None

    @property
    def message(self) -> str:
        """The message, as ``str`` gives it."""
        return str(self)


class ClusterError(MusterError, ValueError):
    """``TF_CONFIG`` or a cluster description is wrong."""


class ClusterTypeError(ClusterError, TypeError):
    """A part of ``TF_CONFIG`` or of a cluster description has the wrong type."""


class ClusterEnvironmentError(ClusterError, RuntimeError):
    """The environment does not describe the job, or contradicts the arguments."""


class PlacementError(ClusterError):
    """An engine has no place for the tasks of a job: it cannot be reached, or lacks what they need."""


class DuplicateTaskError(ClusterError, KeyError):
    """Two resolvers give one task different addresses."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError's is in quotes, as a key is


class CredentialsError(ClusterError):
    """The secret of a job, or this task's certificates, cannot be used: missing, wrong or open to others."""


class RosterError(MusterError, RuntimeError):
    """The tasks of a job cannot work together."""

    error_code = 14


class AddressInUseError(RosterError, OSError):
    """Another process listens at this task's address."""


class MissingPeerError(RosterError, TimeoutError):
    """A task of the job did not come, or did not take part in a collective, in time.

    Args:
        message: The message.
        peers: The names of tasks that are connected, and keep this one waiting.
    """

    def __init__(self, message: str, peers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.peers = peers


class StrayPeerError(RosterError):
    """Another process answers at the address of a task of the job."""


class AuthenticationError(StrayPeerError):
    """A process at the other end of a connection does not prove that it belongs to the job."""


class MismatchError(RosterError):
    """Tasks of one job differ where they must be the same: versions, cluster, program."""


class PeerLostError(RosterError):
    """Another task of the job has ended, has failed, or stands still."""


class PeerEndedError(PeerLostError):
    """Another task has come to the end of its program, which is no failure, while this one goes on.

    Args:
        message: The message.
        peers: The name of that task.
    """

    def __init__(self, message: str, peers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.peers = peers


class ParameterServerError(RosterError):
    """A parameter server refuses what this task asks for, or has lost the values that it had."""


class JobEndedError(RosterError):
    """The chief has ended the job while this task was at work."""


class DatasetError(MusterError, ValueError):
    """An input pipeline cannot be built or read as it is described."""


class PositionError(DatasetError):
    """A saved position does not fit the pipeline that is to continue at it."""


class OutOfRangeError(MusterError, StopIteration):
    """An iterator has fewer elements left than requested.

    Source: tensorflow/python/framework/errors_impl.py, ``OutOfRangeError``.
    """

    error_code = 11


class CancelledError(MusterError):
    """A function that a coordinator was to run, or ran, was cancelled, since another one had failed.

    Source: tensorflow/python/framework/errors_impl.py, ``CancelledError``.
    """

    error_code = 1


class ClosureError(MusterError, RuntimeError):
    """A function that a coordinator has scheduled failed on a worker, with an error known only there."""


class TraceError(MusterError, RuntimeError):
    """User code cannot be traced into a pure step."""


class VariableMismatchError(TraceError, ValueError):
    """The code creates other variables than the first time."""


class OutsideVariableError(TraceError):
    """The code uses a variable that was created outside of it."""


class GradientError(TraceError):
    """The requested gradient does not exist."""


class CheckpointError(MusterError, RuntimeError):
    """A checkpoint cannot be written or read."""


class CheckpointNotFoundError(CheckpointError):
    """The requested checkpoint does not exist, or was deleted."""


class DirectoryInUseError(CheckpointError):
    """Another process writes checkpoints into the directory."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint's bytes have changed since they were written."""


class CheckpointMismatchError(CheckpointError):
    """A checkpoint belongs to another model: names or shapes of variables differ."""


class SavedModelError(MusterError, RuntimeError):
    """A saved model cannot be written or loaded."""


class SavedModelNotFoundError(SavedModelError, FileNotFoundError):
    """There is no saved model in the folder, or a half written one."""


class DamagedSavedModelError(SavedModelError):
    """A saved model's bytes have changed since they were written."""


class PathError(MusterError, ValueError):
    """A path is a URL, such as ``s3://bucket/run``, of what is no file or folder of this machine."""


class StorageError(MusterError, OSError):
    """An object store, such as that of ``s3://bucket/run``, cannot be read or written.

    Args:
        message: The message, also the reason in errors that say what was not done because of it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.strerror = message


class RequestError(MusterError, ValueError):
    """A request to ``muster serve`` cannot be answered.

    Args:
        message: The message, which the client gets.
        status: The status of HTTP: 400 if the request is wrong.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class SummaryError(MusterError, RuntimeError):
    """An event file for TensorBoard cannot be written or read."""


class NanLossDuringTrainingError(MusterError, RuntimeError):
    """The loss became NaN while training.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``NanLossDuringTrainingError``.
    """


class DownloadError(MusterError, OSError):
    """Data could not be downloaded, or has an unexpected content."""


for _error in list(vars().values()):
    if isinstance(_error, type) and issubclass(_error, MusterError):
        _error.__module__ = "muster"  # as programs name them, and see them in tracebacks
