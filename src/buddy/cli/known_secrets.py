"""The secrets that a command knows without a runtime: those of its environment and of its configuration."""

import os
from collections.abc import Iterable

from buddy.scrub.scrubber import Scrubber


def known_secrets(configured: Iterable[str] = ()) -> Scrubber:
    scrubber = Scrubber()
    scrubber.register_environment(os.environ)
    for key in configured:
        scrubber.register(key)
    return scrubber
