"""Connections between the tasks of a job: one listener a task, greetings, frames, TLS."""

from muster.net._acceptor import Acceptor as Acceptor
from muster.net._acceptor import Handler as Handler
from muster.net._address import same_spelling as same_spelling
from muster.net._address import split_address as split_address
from muster.net._connection import Connection as Connection
from muster.net._connection import drop_first as drop_first
from muster.net._credentials import NO_CREDENTIALS as NO_CREDENTIALS
from muster.net._credentials import SECRET as SECRET
from muster.net._credentials import SECRET_FILE as SECRET_FILE
from muster.net._credentials import TLS as TLS
from muster.net._credentials import Credentials as Credentials
from muster.net._credentials import make_secret as make_secret
from muster.net._dial import dial as dial
from muster.net._frames import FrameBuffer as FrameBuffer
from muster.net._frames import ProtocolError as ProtocolError
from muster.net._frames import decode_message as decode_message
from muster.net._frames import encode_frame as encode_frame
from muster.net._greeting import Hello as Hello
from muster.net._listen import BACKLOG as BACKLOG
from muster.net._listen import adopt_listener as adopt_listener
from muster.net._listen import copied_listener as copied_listener
from muster.net._listen import free_address as free_address
from muster.net._listen import listen as listen
from muster.net._private_files import read_private as read_private
from muster.net._tls import Tls as Tls
from muster.net._tls import explain_tls_error as explain_tls_error
