"""`slow_clock.py SCRIPT ...`: run a program whose lookups of once a second last for minutes.

Under valgrind everything takes fifty times as long, so a second has fifty times fewer turns, and what is looked up once
a second would be counted fifty times too often, and more so on a busy machine.
"""

import runpy
import sys

from buddy.tools import source

source.RECENT_SECONDS = 600.0
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
