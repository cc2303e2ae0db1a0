"""The index by itself: what is kept, found, and forgotten."""

import json
import stat
from pathlib import Path

import apsw
import pytest

from buddy.errors import UserError
from buddy.log.database import connect
from buddy.memory.embedders import Embedder
from buddy.memory.hybrid import Weights
from buddy.memory.index import Index, IndexProgress, MemoryHit, MemoryScope, Page
from buddy.memory.schema import FILE, VERSION
from buddy.memory.search import MemoryQuery, Search
from buddy.memory.sources import SessionText
from buddy.memory.wordllama import WordLlama

HERE = "/here"


def said(*texts: str, since: int = 0) -> list[SessionText]:
    return [SessionText(since + number, 1000 + since + number, "user", text) for number, text in enumerate(texts, 1)]


def add(index: Index, session: str, *texts: str, project: str = HERE) -> None:
    before = index.progress(session).seq
    index.add(Page(session, project, said(*texts, since=before), before, IndexProgress(before + len(texts))))


def find(
    folder: Path, text: str, scope: MemoryScope | None = None, embedder: Embedder | None = None
) -> list[MemoryHit]:
    search = Search(folder / FILE, embedder, Weights())
    try:
        return search.find(MemoryQuery(text, scope or MemoryScope(project=HERE)))
    finally:
        search.close()


def embed_all(index: Index, embedder: Embedder) -> None:
    index.use_model(embedder.name)
    while waiting := index.unembedded(100):
        rows = embedder.embed([text for _, text in waiting])
        index.put_vectors([(chunk, row.tobytes()) for (chunk, _), row in zip(waiting, rows, strict=True)])


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / FILE)


def test_any_of_the_words_is_enough_and_the_best_is_first(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "the importer runs at night", "the printer jams", "the importer fails when the disk is full")
    assert [one.text for one in find(tmp_path, "why does the importer fail?")] == [
        "the importer fails when the disk is full",
        "the importer runs at night",
    ]


def test_of_words_that_most_chunks_have_the_newest_chunks_with_all_are_found(index: Index, tmp_path: Path) -> None:
    for page in range(5):
        add(index, f"sess_{page}", *(f"run the test number {page * 500 + place}" for place in range(500)))
    add(index, "sess_old", "the test fails for another reason", *(f"run {place}" for place in range(5)))
    add(index, "sess_other", *(f"test run {place}" for place in range(20)), project="/other")
    found = find(tmp_path, "run the test")
    assert [one.text for one in found] == [f"run the test number {number}" for number in range(2499, 2491, -1)]
    assert {one.project for one in find(tmp_path, "run the test", MemoryScope(project="/other"))} == {"/other"}
    assert {one.session for one in find(tmp_path, "run the test", MemoryScope(session="sess_1"))} == {"sess_1"}
    assert len(find(tmp_path, "test 2499 run")) == 1


def test_other_projects_are_not_looked_at_unless_asked(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "the key is under the mat", project="/there")
    assert find(tmp_path, "key mat") == []
    assert len(find(tmp_path, "key mat", MemoryScope())) == 1


def test_one_session_can_be_searched_alone(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "red paint")
    add(index, "sess_2", "green paint")
    assert [one.text for one in find(tmp_path, "paint", MemoryScope(session="sess_2"))] == ["green paint"]


def test_text_still_in_the_sessions_context_is_left_out(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "blue paint")
    add(index, "sess_2", "old paint", "new paint")
    index.add(Page("sess_2", HERE, [], 2, IndexProgress(3, compacted=1)))
    found = find(tmp_path, "paint", MemoryScope(project=HERE, unless="sess_2"))
    assert {one.text for one in found} == {"blue paint", "old paint"}


def test_the_same_text_is_kept_once_under_its_latest_place(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "tabs, not spaces")
    add(index, "sess_2", "tabs,  not\nspaces")
    [found] = find(tmp_path, "tabs or spaces")
    assert found.session == "sess_2"


def test_reading_a_session_twice_adds_nothing(index: Index, tmp_path: Path) -> None:
    index.add(Page("sess_1", HERE, said("once"), 0, IndexProgress(1)))
    index.add(Page("sess_1", HERE, said("once", "twice"), 0, IndexProgress(2)))
    assert index.progress("sess_1").seq == 1
    assert find(tmp_path, "twice") == []


def test_a_forgotten_text_stays_forgotten(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "my birthday is in May")
    [found] = find(tmp_path, "birthday")
    assert index.forget(found.chunk)
    assert not index.forget(found.chunk)
    add(index, "sess_2", "my birthday is in May")
    assert find(tmp_path, "birthday") == []


def test_a_forgotten_text_is_not_left_in_the_file(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "xylophonequartz")
    [found] = find(tmp_path, "xylophonequartz")
    index.forget(found.chunk)
    index.close()
    assert b"xylophonequartz" not in (tmp_path / FILE).read_bytes()


def test_a_forgotten_session_is_not_read_again(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "red paint", "green paint")
    assert index.forget_session("sess_1") == 2
    assert index.progress("sess_1").is_forgotten
    index.add(Page("sess_1", HERE, said("blue paint", since=2), 2, IndexProgress(3)))
    assert find(tmp_path, "paint") == []


def test_the_file_is_for_its_owner_alone(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "text")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob(f"{FILE}*")}
    assert modes == {0o600}


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 40, b""])
def test_a_file_that_cannot_be_used_is_rebuilt(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / FILE).chmod(0o600)
    add(Index(tmp_path / FILE), "sess_1", "red paint")
    assert len(find(tmp_path, "paint")) == 1


def test_another_programs_database_is_rebuilt(tmp_path: Path) -> None:
    other = connect(tmp_path / FILE, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    other.execute("CREATE TABLE things (name)")
    other.close()
    (tmp_path / FILE).chmod(0o600)
    add(Index(tmp_path / FILE), "sess_1", "red paint")
    assert len(find(tmp_path, "paint")) == 1


def test_the_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    index = Index(tmp_path / FILE)
    add(index, "sess_1", "red paint")
    index.close()
    db = connect(tmp_path / FILE, apsw.SQLITE_OPEN_READWRITE)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    content = (tmp_path / FILE).read_bytes()
    with pytest.raises(UserError, match="newer Buddy") as refused:
        Index(tmp_path / FILE)
    assert "upgrade Buddy" in refused.value.hint
    assert (tmp_path / FILE).read_bytes() == content


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="only you"):
        Index(tmp_path / FILE)


def test_a_related_text_is_found_without_a_shared_word(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "the automobile needs petrol", "soup is cooked slowly", "mathematics homework")
    embedder = WordLlama()
    assert find(tmp_path, "fuel for my car", embedder=embedder) == []
    embed_all(index, embedder)
    assert find(tmp_path, "fuel for my car", embedder=embedder)[0].text == "the automobile needs petrol"


def test_vectors_of_another_model_are_recomputed(index: Index, tmp_path: Path) -> None:
    add(index, "sess_1", "the automobile needs petrol")
    embed_all(index, WordLlama())
    index.use_model("another")
    assert [text for _, text in index.unembedded(10)] == ["the automobile needs petrol"]
    assert find(tmp_path, "fuel for my car", embedder=WordLlama()) == []


def test_new_vectors_and_forgotten_chunks_are_seen_by_an_open_search(index: Index, tmp_path: Path) -> None:
    embedder = WordLlama()
    add(index, "sess_1", "soup is cooked slowly")
    embed_all(index, embedder)
    search = Search(tmp_path / FILE, embedder, Weights())
    question = MemoryQuery("fuel for my car", MemoryScope(project=HERE))
    search.find(question)
    add(index, "sess_1", "the automobile needs petrol")
    embed_all(index, embedder)
    [found] = search.find(question)
    assert found.text == "the automobile needs petrol"
    index.forget(found.chunk)
    assert search.find(question) == []
    search.close()


def test_the_labelled_questions_are_found_better_with_vectors(index: Index, tmp_path: Path) -> None:
    pairs: list[tuple[str, str]] = json.loads(Path(__file__).with_name("labelled.json").read_text(encoding="utf-8"))
    add(index, "sess_1", *(note for _, note in pairs))
    embedder = WordLlama()
    embed_all(index, embedder)

    def recall(by: Embedder | None) -> float:
        search = Search(tmp_path / FILE, by, Weights())
        hits = [any(one.text == note for one in search.find(MemoryQuery(text, MemoryScope()))) for text, note in pairs]
        search.close()
        return sum(hits) / len(pairs)

    words, both = recall(None), recall(embedder)
    assert words > 0.3
    assert both > words + 0.2
