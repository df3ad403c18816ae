"""``tf.compat.v1.gfile``: the functions of ``tf.io.gfile`` by their old names."""

from muster_tensorflow.programs.v1.gfile import copy as Copy
from muster_tensorflow.programs.v1.gfile import exists as Exists
from muster_tensorflow.programs.v1.gfile import is_directory as IsDirectory
from muster_tensorflow.programs.v1.gfile import list_directory as ListDirectory
from muster_tensorflow.programs.v1.gfile import make_directories as MakeDirs
from muster_tensorflow.programs.v1.gfile import make_directory as MkDir
from muster_tensorflow.programs.v1.gfile import matching_files as Glob
from muster_tensorflow.programs.v1.gfile import remove as Remove
from muster_tensorflow.programs.v1.gfile import remove_directory as DeleteRecursively
from muster_tensorflow.programs.v1.gfile import rename as Rename
from muster_tensorflow.programs.v1.gfile import stat as Stat
from muster_tensorflow.programs.v1.gfile import walk as Walk
from muster_tensorflow.programs.v2.gfile import GFile as GFile

FastGFile = Open = GFile
