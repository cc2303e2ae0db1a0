"""What every log does with its inbox, waiting readers, pruning, tokens and blobs."""

import asyncio
import hashlib

import pytest

from buddy.errors import Fenced, SeqConflict, UserError
from buddy.log.contract import Batch, Lease, Log, TokenRecord
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import (
    AssistantToken,
    ToolCall,
    ToolResult,
)
from buddy.protocol.message_events import UserMessage
from buddy.protocol.shapes import Attachment, BootTime
from tests.harness.logs import read_all
from tests.log.records import OTHER, SESSION, batch, changed, pending, record, seqs, started

# --- inbox ---


async def test_items_wait_in_order_and_are_taken_with_an_append(log: Log) -> None:
    lease = await started(log)
    assert [await log.put(SESSION, key, "message", key.encode(), 10) for key in ("a", "b", "c")] == [1, 2, 3]
    items = await log.waiting(SESSION)
    assert [(item.key, item.kind, item.body) for item in items] == [
        ("a", "message", b"a"),
        ("b", "message", b"b"),
        ("c", "message", b"c"),
    ]
    await log.append(changed(batch(lease, 0), taken=(items[0].item_id, items[1].item_id)))
    assert [item.key for item in await log.waiting(SESSION)] == ["c"]
    assert await log.put(SESSION, "d", "message", b"d", 10) == 2


async def test_a_refused_append_takes_nothing(log: Log) -> None:
    lease = await started(log)
    await log.put(SESSION, "a", "message", b"{}", 10)
    (item,) = await log.waiting(SESSION)
    with pytest.raises(SeqConflict):
        await log.append(changed(batch(lease, 9), taken=(item.item_id,)))
    assert await log.waiting(SESSION) == [item]


async def test_a_full_inbox_refuses(log: Log) -> None:
    await started(log)
    assert [await log.put(SESSION, key, "message", b"{}", 2) for key in ("a", "b", "c")] == [1, 2, None]
    assert await log.put(SESSION, "b", "message", b"{}", 2) == 2


async def test_a_key_that_a_batch_had_is_not_queued(log: Log) -> None:
    lease = await started(log)
    await log.append(changed(batch(lease, 0), key="a"))
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 0
    assert await log.waiting(SESSION) == []


async def test_a_key_is_queued_once_even_after_it_was_taken(log: Log) -> None:
    lease = await started(log)
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 1
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 1
    (item,) = await log.waiting(SESSION)
    await log.append(changed(batch(lease, 0), key="a", taken=(item.item_id,)))
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 0
    assert await log.waiting(SESSION) == []


async def test_a_key_that_was_taken_back_can_be_queued_again(log: Log) -> None:
    lease = await started(log)
    assert [await log.put(SESSION, key, "message", b"first", 10) for key in ("a", "b")] == [1, 2]
    before = {item.key: item.item_id for item in await log.waiting(SESSION)}
    last = await log.append(changed(batch(lease, 0), taken=(before["a"],)))
    assert await log.put(SESSION, "a", "message", b"again", 10) == 2
    again = (await log.waiting(SESSION))[1]
    assert (again.key, again.body) == ("a", b"again")
    assert again.item_id not in before.values()  # or what took the first one back would take this one, too
    await log.append(changed(batch(lease, last), key="a", taken=(again.item_id,)))
    assert await log.put(SESSION, "a", "message", b"more", 10) == 0


async def test_a_key_that_was_taken_back_can_be_that_of_a_batch(log: Log) -> None:
    lease = await started(log)
    await log.put(SESSION, "a", "message", b"{}", 10)
    (item,) = await log.waiting(SESSION)
    last = await log.append(changed(batch(lease, 0), taken=(item.item_id,)))
    assert await log.append(changed(batch(lease, last), key="a")) > last
    assert await log.put(SESSION, "a", "message", b"{}", 10) == 0


async def test_a_session_takes_only_its_own_items(log: Log) -> None:
    await started(log)
    other = await started(log, OTHER)
    await log.put(SESSION, "a", "message", b"{}", 10)
    (item,) = await log.waiting(SESSION)
    await log.append(changed(batch(other, 0), taken=(item.item_id,)))
    assert await log.waiting(SESSION) == [item]
    assert await log.waiting("sess_none") == []


async def test_nothing_is_queued_for_an_unknown_session(log: Log) -> None:
    with pytest.raises(UserError, match="no session"):
        await log.put("sess_none", "a", "message", b"{}", 10)


# --- waiting ---


async def test_a_wait_for_what_is_there_returns_at_once(log: Log) -> None:
    await log.append(batch(await started(log), 0))
    assert await log.wait(SESSION, 0, 0)


async def test_a_wait_ends_with_the_next_append(log: Log) -> None:
    lease = await started(log)
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(log.wait(SESSION, 0, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        await log.append(batch(lease, 0))
    assert [wait.result() for wait in waits] == [True, True, True]


async def test_a_wait_that_nothing_ends_is_false(log: Log) -> None:
    await started(log)
    assert not await log.wait(SESSION, 0, 0.01)
    assert not await log.wait("sess_none", 0, 0)


# --- pruning and deleting ---


async def test_pruning_moves_the_first_seq_and_never_the_last(log: Log) -> None:
    lease = await started(log)
    await log.append(batch(lease, 0, 10))
    assert await log.prune(lease, 4) == 4
    assert seqs(await log.read(SESSION, 0, limit=3)) == [4, 5, 6]
    assert seqs(await log.read(SESSION, 5, limit=3)) == [6, 7, 8]
    assert await log.prune(lease, 2) == 4
    assert await log.prune(lease, 99) == 11
    assert await log.read(SESSION, 0) == []
    found = await log.get(SESSION)
    assert found is not None
    assert (found.first_seq, found.last_seq) == (11, 10)
    assert await log.append(batch(lease, 10)) == 11
    assert seqs(await log.read(SESSION, 0)) == [11]


async def test_pruning_needs_the_lease(log: Log) -> None:
    lease = await started(log)
    await log.append(batch(lease, 0, 3))
    await log.acquire(SESSION, "owner")
    with pytest.raises(Fenced):
        await log.prune(lease, 2)
    assert seqs(await read_all(log, SESSION)) == [1, 2, 3]


async def test_a_pruned_batch_is_still_known_by_its_key(log: Log) -> None:
    lease = await started(log)
    first = batch(lease, 0, 3, key="message-1")
    await log.append(first)
    await log.prune(lease, 4)
    assert await log.append(first) == 3


async def test_deleting_a_session_removes_all_of_it_and_nothing_else(log: Log) -> None:
    for session_id in (SESSION, OTHER):
        lease = await started(log, session_id)
        await log.append(changed(batch(lease, 0, key="k"), approval=pending(f"appr_{session_id}")))
        await log.put(session_id, "a", "message", b"{}", 10)
        await log.put_token(TokenRecord(f"hash_{session_id}", session_id, "driver"))
    assert await log.delete(SESSION)
    assert await log.get(SESSION) is None
    assert await log.read(SESSION, 0) == []
    assert await log.waiting(SESSION) == []
    assert await log.approval(f"appr_{SESSION}") is None
    assert await log.token(f"hash_{SESSION}") is None
    assert not await log.delete(SESSION)
    with pytest.raises(Fenced):
        await log.append(batch(Lease(SESSION, 1, "owner"), 1))
    assert [found.session_id for found in await log.newest(9)] == [OTHER]
    assert seqs(await read_all(log, OTHER)) == [1]
    assert len(await log.waiting(OTHER)) == 1
    assert await log.approval(f"appr_{OTHER}") is not None
    assert await log.token(f"hash_{OTHER}") is not None


# --- tokens and blobs ---


async def test_a_process_that_lost_the_session_does_not_delete_it(log: Log) -> None:
    lease = await started(log)
    again = await log.acquire(SESSION, lease.owner)
    assert again is not None
    with pytest.raises(Fenced):
        await log.delete(SESSION, lease.epoch)
    assert await log.get(SESSION) is not None
    assert await log.delete(SESSION, again.epoch)
    assert not await log.delete(SESSION, again.epoch)


async def test_a_token_is_found_by_its_hash_until_it_is_revoked(log: Log) -> None:
    await started(log)
    token = TokenRecord("hash", SESSION, "observer", 123)
    await log.put_token(token)
    assert await log.token("hash") == token
    assert await log.revoke("hash")
    assert not await log.revoke("hash")
    assert await log.token("hash") is None


async def test_a_token_needs_its_session(log: Log) -> None:
    with pytest.raises(UserError, match="no session"):
        await log.put_token(TokenRecord("hash", "sess_none", "driver"))


async def test_a_blob_is_named_by_its_content(log: Log) -> None:
    content = bytes(range(256)) * 400
    blob = await log.put_blob(content)
    assert blob == hashlib.sha256(content).hexdigest()
    assert await log.put_blob(content) == blob
    assert await log.read_blob(blob) == (content, len(content))
    assert await log.read_blob(blob, 10, 5) == (content[10:15], len(content))
    for beyond in (len(content), 2**63 - 1):
        assert await log.read_blob(blob, beyond, 5) == (b"", len(content))


async def test_a_blob_that_does_not_compress_is_read_in_parts(log: Log) -> None:
    content = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(32))
    blob = await log.put_blob(content)
    assert await log.read_blob(blob, 10, 5) == (content[10:15], len(content))
    assert await log.read_blob(blob, 2**63 - 1, 5) == (b"", len(content))


async def test_the_empty_blob_is_a_blob(log: Log) -> None:
    assert await log.read_blob(await log.put_blob(b"")) == (b"", 0)


@pytest.mark.parametrize("blob", ["0" * 64, "../../buddy.db", "", "/etc/passwd", "A" * 64, "0" * 64 + "\n"])
async def test_an_invalid_blob_name_is_not_found(log: Log, blob: str) -> None:
    assert await log.read_blob(blob) is None


async def test_a_blob_that_another_session_names_outlives_the_first(log: Log) -> None:
    blob = await log.put_blob(b"shared")
    for session_id in (SESSION, OTHER):
        lease = await started(log, session_id)
        event = event_of(AssistantToken(text="", blobs={"text": blob}), session_id=session_id, seq=1, ts=1)
        await log.append(Batch(session_id, lease.epoch, 0, [event]))
    await log.delete(SESSION)
    assert await log.read_blob(blob) == (b"shared", 6)
    assert (await log.has_blob(SESSION, blob), await log.has_blob(OTHER, blob)) == (False, True)


async def test_a_session_has_the_blobs_that_its_events_name(log: Log) -> None:
    ours, theirs = [await log.put_blob(content) for content in (b"ours", b"theirs")]
    for session_id, blob in ((SESSION, ours), (OTHER, theirs)):
        lease = await started(log, session_id)
        event = event_of(AssistantToken(text="", blobs={"text": blob}), session_id=session_id, seq=1, ts=1)
        await log.append(Batch(session_id, lease.epoch, 0, [event]))
    assert [await log.has_blob(SESSION, blob) for blob in (ours, theirs, "nothing")] == [True, False, False]


async def test_a_digest_in_somebodys_words_gives_no_blob(log: Log) -> None:
    theirs, shown, whole = [await log.put_blob(content) for content in (b"theirs", b"an image", b"an output")]
    lease = await started(log, SESSION)
    said = UserMessage(message_id="msg_1", text=theirs, by=theirs, attachments=(Attachment(shown),))
    called = ToolCall(source="unknown", tool_name="mcp", args={"blob": theirs, "attachments": [{"blob": theirs}]})
    result = ToolResult(
        source="unknown",
        tool_name=theirs,
        duration_ms=1,
        is_error=False,
        text=theirs,
        structured_error=None,
        output=whole,
    )
    bodies = enumerate((said, called, result), 1)
    events = [event_of(body, session_id=SESSION, seq=seq, ts=1, run_id="run_1") for seq, body in bodies]
    await log.append(Batch(SESSION, lease.epoch, 0, events))
    assert [await log.has_blob(SESSION, blob) for blob in (theirs, shown, whole)] == [False, True, True]


async def test_there_is_room(log: Log) -> None:
    assert log.has_room()


async def test_a_token_is_revoked_with_all_that_it_minted(log: Log) -> None:
    await started(log)
    await started(log, OTHER)
    assert await log.put_token(TokenRecord("a", SESSION, "driver"))
    assert await log.put_token(TokenRecord("b", SESSION, "driver", 5, BootTime("boot", 7), "a"))
    assert await log.put_token(TokenRecord("c", OTHER, "driver", minted_by="b"))
    assert await log.put_token(TokenRecord("d", OTHER, "driver"))
    assert await log.token("b") == TokenRecord("b", SESSION, "driver", 5, BootTime("boot", 7), "a")
    assert sorted(await log.revoke("a")) == ["a", "b", "c"]
    assert [await log.token(name) for name in "abc"] == [None] * 3
    assert await log.tokens(OTHER) == [TokenRecord("d", OTHER, "driver")]
    assert not await log.put_token(TokenRecord("e", SESSION, "observer", minted_by="b"))
    assert await log.token("e") is None


async def test_a_link_is_used_once(log: Log) -> None:
    await started(log)
    await log.put_token(TokenRecord("link", SESSION, "observer", 5, kind="link"))
    await log.put_token(TokenRecord("token", SESSION, "driver"))
    assert sorted(await asyncio.gather(*(log.use_link("link") for _ in range(5)))) == [False] * 4 + [True]
    assert await log.token("link") == TokenRecord("link", SESSION, "observer", 5, kind="used_link")
    assert not await log.use_link("token")
    assert not await log.use_link("none")
    assert await log.put_token(TokenRecord("login", SESSION, "observer", 5, minted_by="link", kind="login"))
    assert sorted(await log.revoke("link")) == ["link", "login"]


async def test_a_session_may_begin_late(log: Log) -> None:
    lease = await log.create(changed(record(), first_seq=10_000_000), "owner")
    await log.append(batch(lease, 9_999_999, 3))
    found = await log.get(SESSION)
    assert found is not None
    assert (found.first_seq, found.last_seq) == (10_000_000, 10_000_002)
    assert seqs(await log.read(SESSION, 0)) == [10_000_000, 10_000_001, 10_000_002]
    assert await log.prune(lease, 10_000_002) == 10_000_002
    assert seqs(await log.read(SESSION, 0)) == [10_000_002]
