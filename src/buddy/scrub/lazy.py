"""Regular expressions that are compiled when they are first used.

A program that starts needs few of the many it has, and compiling takes longer than loading them. What always holds:
from its second use on, one costs what a compiled one costs.
"""

import re
from functools import cached_property


class Lazy:
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
