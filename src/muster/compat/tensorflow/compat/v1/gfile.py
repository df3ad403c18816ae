"""``tf.compat.v1.gfile``: the functions of ``tf.io.gfile`` by their old names."""

from muster.compat.v1.gfile import copy as Copy
from muster.compat.v1.gfile import exists as Exists
from muster.compat.v1.gfile import is_directory as IsDirectory
from muster.compat.v1.gfile import list_directory as ListDirectory
from muster.compat.v1.gfile import make_directories as MakeDirs
from muster.compat.v1.gfile import make_directory as MkDir
from muster.compat.v1.gfile import matching_files as Glob
from muster.compat.v1.gfile import remove as Remove
from muster.compat.v1.gfile import remove_directory as DeleteRecursively
from muster.compat.v1.gfile import rename as Rename
from muster.compat.v1.gfile import stat as Stat
from muster.compat.v1.gfile import walk as Walk
from muster.compat.v2.gfile import GFile as GFile

FastGFile = Open = GFile
