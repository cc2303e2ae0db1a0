"""What each key does. Moving and editing are the editor's own (Ctrl-A/E/B/F/K/U/W, arrows, Ctrl-P/N, Ctrl-R).

What always holds: while a question has the keys, they answer it and change no text.
"""

from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from buddy.terminal.escape import escape

# A short wait tells Esc alone from Alt with a key.
ESCAPE_SECONDS = 0.1
# What terminals that tell Ctrl-Enter from Enter send for it; the editor has no name of its own for it.
CTRL_ENTER = Keys.F24

NAMED = {"up": "up", "down": "down", "c-p": "up", "c-n": "down", "enter": "enter", "escape": "escape", "c-c": "escape"}


class Deck(Protocol):
    """What the keys act on."""

    @property
    def is_locked(self) -> bool: ...

    def press(self, key: str) -> None: ...

    def typed(self) -> None: ...

    def submit(self, text: str, *, steer: bool) -> None: ...

    def escape(self) -> None: ...

    def go_back(self) -> None: ...

    def interrupt(self) -> bool: ...

    def leave(self) -> None: ...

    def cycle_policy(self) -> None: ...

    def edit_outside(self) -> None: ...

    def suspend(self) -> None: ...

    def tell(self, text: str) -> None: ...


def safe_text(text: str) -> str:
    """What was pasted or taken from a log, without what a terminal would act on."""
    flat = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(character for character in flat if escape(character) == character)


def bindings(deck: Deck) -> KeyBindings:
    for sequence in ("\x1b[13;5u", "\x1b[27;5;13~"):
        ANSI_SEQUENCES[sequence] = CTRL_ENTER
    keys = KeyBindings()
    _add_locked(keys, deck)
    _add_sending(keys, deck)
    _add_others(keys, deck)
    return keys


def _add_locked(keys: KeyBindings, deck: Deck) -> None:
    locked = Condition(lambda: deck.is_locked)

    def press(name: str) -> Callable[[KeyPressEvent], None]:
        return lambda _: deck.press(name)

    for key, name in NAMED.items():
        keys.add(key, filter=locked)(press(name))

    @keys.add("c-d", filter=locked)
    def _(_: KeyPressEvent) -> None:
        deck.leave()

    for key in ("c-j", "tab", "s-tab", "c-g", "backspace", Keys.BracketedPaste):
        keys.add(key, filter=locked)(press("other"))

    @keys.add(Keys.Any, filter=locked)
    def _(event: KeyPressEvent) -> None:
        deck.press(event.data)


def _add_sending(keys: KeyBindings, deck: Deck) -> None:
    free = Condition(lambda: not deck.is_locked) & ~is_searching

    def submit(event: KeyPressEvent, *, steer: bool) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state.current_completion if buffer.complete_state else None
        if chosen is not None:
            buffer.apply_completion(chosen)
            return
        text = buffer.text
        if text.strip():
            buffer.append_to_history()
        buffer.reset()
        deck.submit(text, steer=steer)

    @keys.add("enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        submit(event, steer=False)

    @keys.add(CTRL_ENTER, filter=free)
    def _(event: KeyPressEvent) -> None:
        submit(event, steer=True)

    @keys.add("c-j", filter=free)
    @keys.add("escape", "enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        deck.typed()
        event.current_buffer.newline(copy_margin=False)

    @keys.add(Keys.BracketedPaste, filter=free)
    def _(event: KeyPressEvent) -> None:
        deck.typed()
        event.current_buffer.insert_text(safe_text(event.data))

    @keys.add(Keys.Any, filter=free)
    def _(event: KeyPressEvent) -> None:
        deck.typed()
        if event.data.isprintable():
            event.current_buffer.insert_text(safe_text(event.data) * event.arg)


def _add_others(keys: KeyBindings, deck: Deck) -> None:
    free = Condition(lambda: not deck.is_locked) & ~is_searching

    @keys.add("escape", filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.cancel_completion()
        else:
            deck.escape()

    def does(act: Callable[[], object]) -> Callable[[KeyPressEvent], None]:
        def done(_: KeyPressEvent) -> None:
            act()

        return done

    keys.add("escape", "escape", filter=free)(does(deck.go_back))

    @keys.add("c-c", filter=free)
    @keys.add("<sigint>", filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        elif not deck.interrupt():
            deck.tell("  Ctrl-D leaves")

    @keys.add("c-d", filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            deck.leave()

    keys.add("s-tab", filter=free & ~has_completions)(does(deck.cycle_policy))
    keys.add("c-g", filter=free)(does(deck.edit_outside))
    keys.add("c-z")(does(deck.suspend))
