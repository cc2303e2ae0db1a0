"""Links between the documents lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, anchors_of, links_of, name_of, prose_of

BASES = (ROOT, ROOT / "src" / "buddy")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert [link for link in links_of(document) if not _is_there(document, link)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_no_two_headings_share_an_anchor(document: Path) -> None:
    anchors = anchors_of(document)
    assert [anchor for anchor in anchors if anchors.count(anchor) > 1 and document.name != "CHANGELOG.md"] == []


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        links = [link.partition("#")[0] for link in links_of(document) if "://" not in link]
        waiting += [(document.parent / link).resolve() for link in links if link]
    assert [name_of(document) for document in DOCUMENTS if document not in reached] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_test_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`(tests/[\w./]+\.py)::(\w+)`", prose_of(document))
    assert [(path, name) for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_module_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`([\w./]+/[\w.]+\.py)`", prose_of(document))
    assert [path for path in named if not any((base / path).exists() for base in BASES)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_no_document_names_a_place_of_one_machine(document: Path) -> None:
    assert [word for word in ("/work/", "/root/") if word in prose_of(document)] == []


def _is_there(document: Path, link: str) -> bool:
    if "://" in link:
        return True
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    return target.exists() and (not anchor or anchor in anchors_of(target))
