"""What a worker does for a coordinator: it runs closures, on values that it asks parameter servers for."""

from muster.distribute.closures._drawing import kind_of as kind_of
from muster.distribute.closures._messages import PURPOSE as PURPOSE
from muster.distribute.closures._messages import AnswerHeader as AnswerHeader
from muster.distribute.closures._messages import ArrayKind as ArrayKind
from muster.distribute.closures._messages import Begin as Begin
from muster.distribute.closures._messages import Draw as Draw
from muster.distribute.closures._messages import Drew as Drew
from muster.distribute.closures._messages import End as End
from muster.distribute.closures._messages import Failed as Failed
from muster.distribute.closures._messages import Forget as Forget
from muster.distribute.closures._messages import Iterate as Iterate
from muster.distribute.closures._messages import Learn as Learn
from muster.distribute.closures._messages import Own as Own
from muster.distribute.closures._messages import Program as Program
from muster.distribute.closures._messages import Ran as Ran
from muster.distribute.closures._messages import Ready as Ready
from muster.distribute.closures._messages import Refused as Refused
from muster.distribute.closures._messages import Run as Run
from muster.distribute.closures._messages import Stop as Stop
from muster.distribute.closures._messages import Stopped as Stopped
from muster.distribute.closures._messages import Table as Table
from muster.distribute.closures._messages import TableRows as TableRows
from muster.distribute.closures._messages import name_of as name_of
from muster.distribute.closures._service import ClosureService as ClosureService
from muster.distribute.closures._worker_strategy import WorkerStrategy as WorkerStrategy
from muster.distribute.closures._worker_strategy import same as same
