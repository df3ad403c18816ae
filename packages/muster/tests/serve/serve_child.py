"""``muster serve`` as a program, for `jobs.Process`. Arguments: those of the command."""

import sys

from muster.__main__ import main

sys.exit(main(["serve", *sys.argv[1:]]))
