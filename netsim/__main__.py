"""``python -m netsim``."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]      # `python -m` puts the current folder first, which may hold files of other people

from netsim.cli import main

main()
