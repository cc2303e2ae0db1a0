"""Which images of a history a server is shown, and what it gets instead of the others.

Invariants: an image that a server refuses is described in words from then on, and the request is repeated, so no image
can end a session; one that it accepted before is left out only if leaving out the newer ones does not help. Images that
keep a server from answering at all (two failures in a row) count as refused. Whether an error was about images shows
when the request succeeds without them: if it does not, they are sent again.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from buddy.errors import ProviderError
from buddy.models.api_errors import ApiError
from buddy.models.contract import Image, Notice, Prompt, ToolItem, UserItem, images_in

_REFUSALS = {400, 404, 413, 415, 422}
_BUSY = {408, 429, 503, 529}
_FAILURES = 2


class Pictures:
    """The images of one provider's requests."""

    def __init__(self) -> None:
        self._contents: Mapping[str, bytes] = {}
        self._shown: frozenset[str] = frozenset()
        self._accepted: set[str] = set()
        self._refused: set[str] = set()
        self._on_trial: set[str] = set()
        """Left out of the next request, to see whether it succeeds without them."""
        self._returned = False
        self._failures = 0

    @property
    def has_any(self) -> bool:
        return bool(self._shown)

    def use(self, prompt: Prompt) -> bool:
        """Take the images of a prompt; returns whether items that were encoded before must be encoded again."""
        self._contents = prompt.images
        if not prompt.images and not self._shown:
            return False
        before = self._shown
        wanted = {image.blob for image in images_in(prompt.items)} if prompt.images else set[str]()
        self._shown = frozenset(wanted & prompt.images.keys()) - self._refused - self._on_trial
        returned, self._returned = self._returned, False
        return returned or not before <= self._shown

    def split(self, item: UserItem | ToolItem) -> tuple[str, list[tuple[Image, bytes]]]:
        """The text of an item, which describes what is not shown, and what is shown with its content."""
        if not item.images:
            return item.text, []
        shown = [(image, self._contents[image.blob]) for image in item.images if image.blob in self._shown]
        notes = [self._note(image) for image in item.images if image.blob not in self._shown]
        return "\n\n".join(filter(None, (item.text, *notes))) if notes else item.text, shown

    def accept(self) -> None:
        """The server answered."""
        self._accepted |= self._shown
        self._refused |= self._on_trial
        self._on_trial.clear()
        self._failures = 0

    def refuse(self, error: ProviderError) -> Notice | None:
        """Leave out images because of this error; None if that would not help."""
        if not self._shown or not self._is_about_images(error):
            self._returned = self._returned or bool(self._on_trial)
            self._on_trial.clear()
            return None
        dropped = self._shown - self._accepted or self._shown
        self._on_trial |= dropped
        self._failures = 0
        count = "an image" if len(dropped) == 1 else f"{len(dropped)} images"
        message = f"the model API refused {count}; the model gets a description instead"
        return Notice("IMAGE_LEFT_OUT", message, str(error))

    def _is_about_images(self, error: ProviderError) -> bool:
        if isinstance(error, ApiError) and error.status in _REFUSALS:
            return True
        if not error.retryable or (isinstance(error, ApiError) and error.status in _BUSY):
            return False
        self._failures += 1
        return self._failures >= _FAILURES and bool(self._shown - self._accepted)

    def _note(self, image: Image) -> str:
        if image.blob in self._refused or image.blob in self._on_trial:
            reason = "the model API refused it"
        else:
            reason = "older images are left out" if self._contents else "this model does not take images"
        return f"[{image.describe()} is not shown to you: {reason}]"


NONE = Pictures()
"""For a history without images."""


def data_url(image: Image, content: bytes) -> Raw:
    """The content as the URL of an image, in JSON."""
    return Raw(b'"data:%s;base64,%s"' % (image.media_type.encode(), content))


def in_json(content: bytes) -> Any:
    """The content as a JSON string; base64 needs no escapes."""
    return Raw(b'"%s"' % content)
