"""Regular expressions that are compiled on first use.

A process needs few of them at its start, and compiling all would take longer than importing the package. From its
second use on, one costs the same as a compiled pattern.
"""

import re
from functools import cached_property


class LazyPattern:
    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._source = pattern, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(*self._source)

    @cached_property
    def search(self):
        return self.compiled.search

    @cached_property
    def match(self):
        return self.compiled.match

    @cached_property
    def fullmatch(self):
        return self.compiled.fullmatch

    @cached_property
    def finditer(self):
        return self.compiled.finditer

    @cached_property
    def findall(self):
        return self.compiled.findall

    @cached_property
    def sub(self):
        return self.compiled.sub
