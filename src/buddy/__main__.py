"""`python -m buddy` is `buddy`."""

import sys

from buddy.cli import main

sys.exit(main())
