"""Which key does what. Moving and editing are the editor's own (Ctrl-A/E/B/F/K/U/W, arrows, Ctrl-P/N, Ctrl-R).

Invariants: while a list has the keys, they answer it and change no text; otherwise everything typed is text first.
"""

import os
from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from buddy.terminal.clipboard_image import save_image
from buddy.terminal.escape import escape
from buddy.terminal.pastes import PastedTexts

# Esc alone and Alt with a key begin alike; a short wait tells them apart.
ESCAPE_SECONDS = 0.1
# The editor has no name for Ctrl-Enter, which some terminals report; a key that nobody has stands in for it.
CTRL_ENTER = Keys.F24

NAMED = {
    "up": "up",
    "down": "down",
    "c-p": "up",
    "c-n": "down",
    "enter": "enter",
    "escape": "escape",
    "c-c": "escape",
    "backspace": "backspace",
}


class KeyHandler(Protocol):
    """What the keys call."""

    @property
    def is_locked(self) -> bool: ...

    def press(self, key: str) -> None: ...

    def note_typing(self, key: str) -> None: ...

    def note_paste(self) -> None: ...

    def answer(self, text: str) -> bool: ...

    def submit(self, text: str, *, steer: bool) -> None: ...

    def escape(self) -> None: ...

    def go_back(self) -> None: ...

    def stop(self, *, cleared: bool) -> None: ...

    def quit(self) -> None: ...

    @property
    def can_take_back(self) -> bool: ...

    def take_back(self) -> None: ...

    def cycle_policy(self) -> None: ...

    def open_editor(self) -> None: ...

    def suspend(self) -> None: ...

    def type_question_mark(self) -> None: ...

    def show_output(self) -> None: ...


def safe_text(text: str) -> str:
    """Pasted or logged text without the characters that a terminal would act on."""
    flat = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(character for character in flat if escape(character) == character)


def create_bindings(handler: KeyHandler, pastes: PastedTexts) -> KeyBindings:
    for sequence in ("\x1b[13;5u", "\x1b[27;5;13~"):
        ANSI_SEQUENCES[sequence] = CTRL_ENTER
    keys = KeyBindings()
    _add_dialog_keys(keys, handler)
    _add_text_keys(keys, handler, pastes)
    _add_paste_keys(keys, handler, pastes)
    _add_control_keys(keys, handler, pastes)
    _add_showing_keys(keys, handler)
    return keys


def _add_dialog_keys(keys: KeyBindings, handler: KeyHandler) -> None:
    locked = Condition(lambda: handler.is_locked)

    def press(name: str) -> Callable[[KeyPressEvent], None]:
        return lambda _: handler.press(name)

    for key, name in NAMED.items():
        keys.add(key, filter=locked)(press(name))

    @keys.add("c-d", filter=locked)
    def _(_: KeyPressEvent) -> None:
        handler.quit()

    for key in ("c-j", "tab", "s-tab", "c-g", Keys.BracketedPaste):
        keys.add(key, filter=locked)(press("other"))

    @keys.add(Keys.Any, filter=locked)
    def _(event: KeyPressEvent) -> None:
        handler.press(event.data)


def _submit(buffer: Buffer, handler: KeyHandler, pastes: PastedTexts, *, steer: bool) -> None:
    chosen = buffer.complete_state.current_completion if buffer.complete_state else None
    if chosen is not None:
        buffer.apply_completion(chosen)
        return
    pastes.expand()
    text = buffer.text
    if handler.answer(text):
        return
    if text.strip():
        buffer.append_to_history()
    buffer.reset()
    handler.submit(text, steer=steer)


def _add_text_keys(keys: KeyBindings, handler: KeyHandler, pastes: PastedTexts) -> None:
    free = Condition(lambda: not handler.is_locked) & ~is_searching

    @keys.add("enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        _submit(event.current_buffer, handler, pastes, steer=False)

    @keys.add(CTRL_ENTER, filter=free)
    def _(event: KeyPressEvent) -> None:
        _submit(event.current_buffer, handler, pastes, steer=True)

    @keys.add("c-j", filter=free)
    @keys.add("escape", "enter", filter=free)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)
        handler.note_typing("\n")

    @keys.add(Keys.Any, filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            event.current_buffer.insert_text(safe_text(event.data) * event.arg)
        handler.note_typing(event.data)


def _add_paste_keys(keys: KeyBindings, handler: KeyHandler, pastes: PastedTexts) -> None:
    free = Condition(lambda: not handler.is_locked) & ~is_searching
    at_label = free & Condition(lambda: pastes.is_before_cursor)

    @keys.add(Keys.BracketedPaste, filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.data:
            pastes.insert(safe_text(event.data))
            handler.note_paste()
        else:
            event.app.create_background_task(_paste_image(pastes))

    @keys.add("backspace", filter=at_label)
    @keys.add("c-w", filter=at_label)
    def _(_: KeyPressEvent) -> None:
        pastes.remove()


async def _paste_image(pastes: PastedTexts) -> None:
    """An empty paste may stand for an image on the clipboard."""
    if path := await save_image(os.environ):
        pastes.insert(path)


def _add_control_keys(keys: KeyBindings, handler: KeyHandler, pastes: PastedTexts) -> None:
    free = Condition(lambda: not handler.is_locked) & ~is_searching

    @keys.add("escape", filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.cancel_completion()
        else:
            handler.escape()

    def calls(action: Callable[[], object]) -> Callable[[KeyPressEvent], None]:
        def on_key(_: KeyPressEvent) -> None:
            action()

        return on_key

    keys.add("escape", "escape", filter=free)(calls(handler.go_back))

    @keys.add("c-c", filter=free)
    @keys.add("<sigint>", filter=free)
    def _(event: KeyPressEvent) -> None:
        buffer, had_text = event.current_buffer, bool(event.current_buffer.text)
        if had_text:
            pastes.expand()
            buffer.append_to_history()
            buffer.reset()
        handler.stop(cleared=had_text)

    @keys.add("c-d", filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            handler.quit()

    can_take_back = free & Condition(lambda: handler.can_take_back)
    keys.add("up", filter=can_take_back)(calls(handler.take_back))
    keys.add("s-tab", filter=free & ~has_completions)(calls(handler.cycle_policy))
    keys.add("c-g", filter=free)(calls(handler.open_editor))
    keys.add("c-z")(calls(handler.suspend))


def _add_showing_keys(keys: KeyBindings, handler: KeyHandler) -> None:
    free = Condition(lambda: not handler.is_locked) & ~is_searching

    @keys.add("c-o", filter=free)
    def _(_: KeyPressEvent) -> None:
        handler.show_output()

    @keys.add("?", filter=free)
    def _(event: KeyPressEvent) -> None:
        is_first = not event.current_buffer.text
        event.current_buffer.insert_text("?")
        handler.note_typing("?")
        if is_first:
            handler.type_question_mark()
