"""HTML on stdin to Markdown on stdout, as a separate program: a hostile page can make it slow, so it must be possible
to kill it.

It is run by its path and imports nothing from Buddy. Its only argument is the page's encoding, or empty.
"""

import re
import sys

from justhtml import Element, JustHTML

MAIN = "main, article, [role=main]"
NOISE = (
    "script, style, noscript, template, nav, svg, img, picture, video, audio, iframe, button, [hidden], "
    "[aria-hidden=true]"
)


def main() -> None:
    encoding = sys.argv[1] if len(sys.argv) > 1 else ""
    sys.stdout.buffer.write(markdown(sys.stdin.buffer.read(), encoding or None).encode("utf-8", "replace"))


def markdown(html: bytes, encoding: str | None) -> str:
    document = JustHTML(html, encoding=encoding, sanitize=False)
    title = document.query_one("title")
    heading = " ".join(title.to_text().split()) if isinstance(title, Element) else ""
    part = document.query_one(MAIN) or document.query_one("body")
    text = _text_of(part) if isinstance(part, Element) else ""
    return f"title: {heading}\n\n{text}" if heading else text


def _text_of(part: Element) -> str:
    for noise in part.query(NOISE):
        if isinstance(noise, Element) and noise.parent is not None:
            noise.parent.remove_child(noise)
    return re.sub(r"\n{3,}", "\n\n", part.to_markdown()).strip()


if __name__ == "__main__":
    main()
