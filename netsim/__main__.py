"""``python -m netsim``."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]      # `python -m` puts the current folder first, and whose files lie there nobody knows

from netsim.cli import main

main()
