"""``python -m netsim``."""

from netsim.cli import main

main()
