"""Secret redaction: no registered secret reaches a log, a screen, a model or a file."""

from buddy.scrub.marks import ENTROPY_MARK, MARK
from buddy.scrub.scrubber import Scrubber
from buddy.scrub.streams import Stream

__all__ = ["ENTROPY_MARK", "MARK", "Scrubber", "Stream"]
