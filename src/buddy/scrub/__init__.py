"""Secret redaction: no registered secret reaches a log, a screen, a model or a file."""

from buddy.scrub.scrubber import Scrubber, Stream
from buddy.scrub.values import MARK

__all__ = ["MARK", "Scrubber", "Stream"]
