"""Images in the real program: a file that is dropped on the terminal arrives as its path."""

from pathlib import Path

import pytest

from buddy.client.image_paths import find_dropped, find_image_paths
from tests.harness.home import Home
from tests.harness.pictures import gif, png
from tests.harness.terminal import Tmux


@pytest.mark.slow
def test_a_dropped_image_is_a_label_and_is_sent_with_the_message(home: Home) -> None:
    shot = home.work / "a shot.png"
    shot.write_bytes(png(30, 20))
    with home.script({"text": "hi"}) and Tmux(home, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.paste(str(shot).replace(" ", "\\ ") + " ")
        terminal.wait_for("> [Image a shot.png]")
        terminal.type(" what is it?")
        terminal.keys("Enter")
        screen = terminal.wait_for("✓ done")
        assert "  image: a shot.png" in screen
    exported = home.run("session", "export", "last").out
    [said] = [line for line in exported.splitlines() if '"type":"user_message"' in line]
    assert '"mediaType":"image/png","name":"a shot.png","width":30,"height":20' in said


@pytest.mark.slow
def test_an_image_that_cannot_be_sent_is_said_and_the_session_goes_on(home: Home) -> None:
    (home.work / "wide.png").write_bytes(png(9000, 2))
    with home.script({"text": "hi"}) and Tmux(home, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("look at @wide.png")
        terminal.wait_for("hint: PNG, JPEG, GIF and WebP can be sent")
        terminal.enter("never mind")
        terminal.wait_for("✓ done")


def test_the_first_message_can_have_images(home: Home) -> None:
    (home.work / "b.gif").write_bytes(gif())
    with home.script({"text": "hi"}) and Tmux(home, "--image", "b.gif", "what is it?", rows=40) as terminal:
        screen = terminal.wait_for("✓ done")
        assert "  image: b.gif" in screen


@pytest.mark.slow
def test_an_empty_paste_takes_the_image_on_the_clipboard(home: Home) -> None:
    (home.directory / "clip.png").write_bytes(png(30, 20))
    program = home.directory / "bin" / "wl-paste"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\ncat {home.directory}/clip.png\n")
    program.chmod(0o755)
    home.env |= {"PATH": f"{program.parent}:{home.env['PATH']}", "WAYLAND_DISPLAY": "w", "TMPDIR": str(home.directory)}
    with home.script({"text": "hi"}, {"text": "again"}) and Tmux(home, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.type("\x1b[200~\x1b[201~")
        terminal.wait_for("> [Image clipboard.png]")
        terminal.type(" what is it?")
        terminal.keys("Enter")
        terminal.wait_for("✓ done")
        terminal.wait_for("  image: clipboard.png")
        assert list(home.directory.glob("buddy-clipboard-*/*"))
        terminal.type("\x1b[200~\x1b[201~")
        terminal.wait_for("> [Image clipboard-2.png]")
        terminal.keys("Enter")
        terminal.wait_for("  image: clipboard-2.png")
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
    assert not list(home.directory.glob("buddy-clipboard-*"))


def test_which_words_of_a_message_are_images(tmp_path: Path) -> None:
    for name in ("a.png", "b c.JPG", "d.webp", "e.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    at = str(tmp_path)
    text = f"""see {at}/a.png, "{at}/b c.JPG" '{at}/d.webp' {at}/b\\ c.JPG file://{at}/b%20c.JPG
        {at}/e.txt {at}/missing.png {at}/folder.png a.png @d.webp x{at}/a.png {"y" * 5000}.png"""
    assert find_image_paths(text, at) == [f"{at}/{name}" for name in ("a.png", "b c.JPG", "d.webp")]
    assert find_image_paths("no.png /no.png", at) == []
    assert find_dropped(f"'{at}/b c.JPG' ") == f"{at}/b c.JPG"
    assert find_dropped(f"{at}/a.png and more") == ""


@pytest.mark.parametrize("text", ["\0/x.png", "~nobody/x.png", '"/x.png', "@", "@/.png", "\\", "file://%00.png"])
def test_nothing_typed_breaks_it(text: str) -> None:
    assert find_image_paths(text, "/") == []
