"""The style sheet without a browser: what a class of its own looks like does not leak into what it only qualifies."""

import re

from tests.harness.processes import ROOT

CSS = (ROOT / "src" / "buddy" / "console" / "app.css").read_text(encoding="utf-8")
# They only colour a word, which is what they are for wherever they are.
COLOURS = {"warn"}


def selectors() -> list[str]:
    rules = re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", CSS, flags=re.DOTALL))
    return [one.strip() for rule in rules if not rule.strip().startswith("@") for one in rule.split(",")]


def test_a_class_that_qualifies_another_has_no_look_of_its_own() -> None:
    alone = {found[1] for one in selectors() if (found := re.fullmatch(r"\.([\w-]+)", one))}
    qualifying = {name for one in selectors() for name in re.findall(r"\.[\w-]+\.([\w-]+)", one)}
    assert "open" in qualifying
    assert alone & qualifying == COLOURS
