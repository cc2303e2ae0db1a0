"""Scrubs one text that arrives in chunks.

Invariants:
- the outputs, joined, are the masking of the complete text, however it was cut into chunks;
- only what could still become a secret is held back: of ordinary prose the last word, or the last character in scripts
  without blanks; at most a private key or a word up to their limits, or the longest registered value;
- a chunk is examined in steps, each of which takes a fraction of a millisecond; the next one is fed after the last.
"""

from buddy.scrub import heuristics
from buddy.scrub.marks import MARK
from buddy.scrub.noise import has_noise
from buddy.scrub.pieces import FIRST_WIDE, LONGEST_LINE, LONGEST_WORD, ArmourRows, forced_cut, is_wide, wide_start
from buddy.scrub.safe_cuts import SafeCuts
from buddy.scrub.token_formats import DASHES
from buddy.scrub.values import UNWRAPPED, Values, wrapped_after
from buddy.steps import Steps, at_once

_HELD = 256
_MUCH = 1024


class Stream:
    """All layers over a stream."""

    def __init__(self, values: Values) -> None:
        self._values = ValueStream(values)
        self._heuristics = HeuristicStream()

    def feed(self, text: str) -> str:
        return at_once(self.feed_steps(text))

    def finish(self) -> str:
        """What was held back: the text is complete, or another starts after it."""
        return at_once(self.finish_steps())

    def feed_steps(self, text: str) -> Steps[str]:
        text = yield from self._values.feed(text)
        return (yield from self._heuristics.feed(text)) if text else ""

    def finish_steps(self) -> Steps[str]:
        last = yield from self._values.finish()
        out = yield from self._heuristics.feed(last)
        return out + (yield from self._heuristics.finish())


class ValueStream:
    """The registered values."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._held = ""
        self._covered = 0
        self._wrapped = UNWRAPPED
        self._enough = 0  # how much must be held before it is worth to look again

    def feed(self, text: str) -> Steps[str]:
        if self._values.empty and not self._held:
            return text
        self._held += text
        if len(self._held) < self._enough:
            return ""
        out = yield from self._examine()
        self._enough = len(self._held) * 5 // 4 if len(self._held) > _MUCH else 0
        return out

    def _examine(self) -> Steps[str]:
        out = (yield from self._close()) if MARK in self._held else ""
        cut = max(self._held.rfind(" "), self._held.rfind("\n")) + 1
        ends_wide = self._held[-1:] >= FIRST_WIDE and is_wide(self._held[-1])
        if cut == 0 and len(self._held) <= _HELD and not ends_wide:
            return out
        noisy = has_noise(self._held)
        if cut == 0 or ends_wide:
            cut = yield from self._values.open_at(self._held.removesuffix("\r"))
        elif self._values.has_spaces or self._held[cut - 1] == "\n" or noisy:
            cut = yield from self._values.open_at(self._held[:cut])
        if self._covered or self._values.may_hold(self._held, noisy=noisy):
            return out + (yield from self._release(cut))
        return out + self._pass(cut)

    def finish(self) -> Steps[str]:
        out = (yield from self._close()) if MARK in self._held else ""
        self._enough = 0
        return out + (yield from self._release(len(self._held)))

    def _close(self) -> Steps[str]:
        """Parts that a mark follows are complete."""
        *parts, self._held = self._held.split(MARK)
        masked: list[str] = []
        for part in parts:
            out, _ = yield from self._values.mask_part(part, len(part), self._covered, self._wrapped)
            masked += (out, MARK)
            self._covered, self._wrapped = 0, UNWRAPPED
        return "".join(masked)

    def _pass(self, cut: int) -> str:
        out, self._held = self._held[:cut], self._held[cut:]
        self._wrapped = wrapped_after(out, self._wrapped)
        return out

    def _release(self, cut: int) -> Steps[str]:
        if cut == 0:
            return ""
        masking = self._values.mask_part(self._held, cut, self._covered, self._wrapped)
        out, self._covered = yield from masking
        self._wrapped = wrapped_after(self._held[:cut], self._wrapped)
        self._held = self._held[cut:]
        return out


class HeuristicStream:
    """The other layers."""

    def __init__(self) -> None:
        self._part = _PartStream()
        self._rows = ArmourRows()
        self._tail = ""  # could become the opening of an armour line

    def feed(self, text: str) -> Steps[str]:
        text = self._tail + text
        if "-" in text[1 - len(DASHES) :]:
            size = next((size for size in range(len(DASHES) - 1, 0, -1) if text.endswith(DASHES[:size])), 0)
            text, self._tail = text[: len(text) - size], text[len(text) - size :]
        else:
            self._tail = ""
        out: list[str] = []
        done = 0
        for cut in self._rows.cuts(text):
            out.append((yield from self._part.feed(text[done:cut])))
            out.append((yield from self._part.finish()))
            done = cut
        last = yield from self._part.feed(text[done:] if done else text)
        return "".join([*out, last]) if out else last

    def finish(self) -> Steps[str]:
        tail, self._tail = self._tail, ""
        self._rows = ArmourRows()
        out = yield from self._part.feed(tail)
        return out + (yield from self._part.finish())


class _PartStream:
    """A part of the text that is masked on its own."""

    def __init__(self) -> None:
        self._held = ""
        # Positions in the held text; negative if they were released.
        self._word: int = 0  # where its last word starts
        self._line: int = 0  # where its last line starts, or was cut
        self._blank: int = 0  # after the last blank before it
        self._cuts = SafeCuts()

    def feed(self, text: str) -> Steps[str]:
        last = _last_blank(text)
        out = ""
        before, word, line = len(self._held), self._word, self._line
        self._held += text
        if last >= 0:
            self._word = before + last + 1
            newline = text.rfind("\n")
            self._line = before + newline + 1 if newline >= 0 else line
        if len(self._held) - word >= LONGEST_WORD or len(self._held) - line >= LONGEST_LINE:
            out = yield from self._force(line)
        if last >= 0:
            out += yield from self._release()
        return out + self._start() if self._held >= FIRST_WIDE and not self._word else out

    def finish(self) -> Steps[str]:
        held = self._held
        self._drop(len(held))
        self._line = self._blank = 0
        return (yield from heuristics.mask_piece(held)) if heuristics.is_suspicious(held) else held

    def _release(self) -> Steps[str]:
        cut = self._word
        region = self._held[:cut]
        if heuristics.is_suspicious(region):
            cut = yield from self._cuts.find(self._held, cut)
            region = yield from heuristics.mask_piece(self._held[:cut])
        self._drop(cut)
        if cut:
            self._blank = 0
        return region

    def _start(self) -> str:
        cut = wide_start(self._held)
        out = self._held[:cut]
        self._drop(cut)
        return out

    def _force(self, line: int) -> Steps[str]:
        """Cut words and lines that are too long at the same places as in the complete text."""
        out: list[str] = []
        while True:
            end = self._held.find("\n", max(line, 0))
            end = len(self._held) if end < 0 else end
            cut = yield from forced_cut(self._held, line, end, self._blank)
            if cut is None and end == len(self._held):
                return "".join(out)
            if cut is None:
                line = end + 1
                continue
            masked = yield from heuristics.mask_piece(self._held[: max(cut, 0)])
            out.append(masked)
            line = min(cut, 0)
            self._line = max(self._line, cut)
            self._drop(max(cut, 0))
            self._blank = line

    def _drop(self, cut: int) -> None:
        if cut:
            self._held = self._held[cut:]
            self._word = max(0, self._word - cut)
            self._line -= cut
            self._blank -= cut
            self._cuts.clear()


def _last_blank(text: str) -> int:
    at = max(text.rfind(" "), text.rfind("\n"))
    if at >= 0 or text.isalnum():
        return at
    return max((index for index, character in enumerate(text) if character.isspace()), default=-1)
