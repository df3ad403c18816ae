"""``tf.compat.v1.gfile``: the functions of ``tf.io.gfile`` by their old names."""

import os as _os
import shutil as _shutil

from muster.compat.v1.gfile import make_directory as MkDir
from muster.compat.v1.gfile import walk as Walk
from muster.compat.v2.gfile import GFile as GFile
from muster.compat.v2.gfile import copy as Copy
from muster.compat.v2.gfile import glob as Glob
from muster.compat.v2.gfile import makedirs as MakeDirs
from muster.compat.v2.gfile import rename as Rename

DeleteRecursively = _shutil.rmtree
Exists = _os.path.exists
FastGFile = Open = GFile
IsDirectory = _os.path.isdir
ListDirectory = _os.listdir
Remove = _os.remove
Stat = _os.stat
