"""A program that speaks Droid's JSON-RPC on stdin and stdout and does what the first word of a message says.

say, think, look FILE, run COMMAND, both COMMAND | COMMAND, same COMMAND | COMMAND, edit PATH TEXT, patch PATH PATH,
fetch URL, other NAME, strange, question TEXT, plan TEXT, shows NAME, wait, die, mute, garbage, fail TEXT, recall,
blind (fails on images). An image is a word of the message: its type and the beginning of its digest. Its sessions are
stored in .fake-droid.json in its working directory. FACTORY_FAKE changes how it speaks: old (no tool_call,
no ids, and only idle at the end of a turn), double (everything twice), numbers (numeric ids), deaf, dead, nameless
(errors without an id), refusing.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODES = os.environ.get("FACTORY_FAKE", "").split()
STORE = Path(".fake-droid.json")
OLD = "old" in MODES
output = threading.Lock()
answers: dict[Any, dict[str, Any]] = {}
changed = threading.Condition()
interrupted = threading.Event()
queue: list[tuple[str, str]] = []
sessions: dict[str, dict[str, Any]] = json.loads(STORE.read_text()) if STORE.exists() else {}
current: dict[str, Any] = {}
numbers = iter(range(10_000))


def write(**fields: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "factoryProtocolVersion": "1.1.0", **fields})
    with output:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def notify(kind: str, **fields: Any) -> None:
    times = 2 if "double" in MODES and not kind.endswith("_delta") else 1
    for _ in range(times):
        params = {"notification": {"type": kind, **fields}, "sessionId": current["id"]}
        write(type="notification", method="droid.session_notification", params=params)


def state(name: str) -> None:
    notify("droid_working_state_changed", newState=name)


def message(role: str, content: list[dict[str, Any]], message_id: str = "", **more: Any) -> None:
    notify("create_message", message={"id": message_id or str(uuid.uuid4()), "role": role, "content": content}, **more)


def say(text: str) -> None:
    message_id = str(uuid.uuid4())
    state("streaming_assistant_message")
    if not OLD:
        first, *others = text.split(" ")
        for piece in [first, *(f" {word}" for word in others)]:
            notify("assistant_text_delta", messageId=message_id, blockIndex=0, textDelta=piece)
    message("assistant", [{"type": "text", "text": text}], message_id)


def use(name: str, args: dict[str, Any], call_id: str = "") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id or f"call-{uuid.uuid4()}", "name": name, "input": args}


def announce(*uses: dict[str, Any]) -> None:
    if not OLD:
        for call in uses:
            notify("tool_call", toolUse={**call, "input": {}})
            notify("tool_call", toolUse=call)
    message("assistant", list(uses))
    state("executing_tool")


def result(one: dict[str, Any], text: str, **more: Any) -> None:
    notify("tool_result", toolUseId=one["id"], messageId=str(uuid.uuid4()), content=text, **more)


def request(method: str, **params: Any) -> dict[str, Any]:
    """Ask the client; returns its answer, or a cancellation if it was interrupted meanwhile."""
    request_id: Any = next(numbers) if "numbers" in MODES else str(uuid.uuid4())
    write(type="request", id=request_id, method=f"droid.{method}", params=params)
    with changed:
        while request_id not in answers and not interrupted.is_set():
            changed.wait(0.05)
        return answers.pop(request_id, {"selectedOption": "cancel"})


def is_allowed(*asked: tuple[dict[str, Any], str, dict[str, Any]]) -> bool:
    state("waiting_for_tool_confirmation")
    uses = [{"toolUse": one, "confirmationType": kind, "details": {"type": kind, **more}} for one, kind, more in asked]
    chosen = request("request_permission", toolUses=uses, options=[])["selectedOption"]
    if chosen == "proceed_once":
        state("executing_tool")
        return True
    for one, _, _ in asked:
        result(one, "Error: Tool execution cancelled by user", isError=True)
    return False


def run(*commands: str, call_id: str = "") -> bool:
    uses = [use("Execute", {"command": command}, call_id) for command in commands]
    announce(*uses)
    if not is_allowed(*((call, "exec", {"fullCommand": call["input"]["command"]}) for call in uses)):
        return False
    for call in uses:
        done = subprocess.run(["sh", "-c", call["input"]["command"]], capture_output=True, text=True, check=False)
        notify("tool_progress_update", toolUseId=call["id"], toolName="Execute", update={"fullOutput": done.stdout})
        more = {} if OLD else {"isError": done.returncode != 0}
        result(call, f"{done.stdout}\n\n[Process exited with code {done.returncode}]", **more)
    return True


def change(path: str, text: str) -> bool:
    file = Path(path)
    before = file.read_text() if file.exists() else None
    one = use("Create" if before is None else "Edit", {"file_path": str(file.absolute()), "content": text})
    announce(one)
    shown = {"content": text} if before is None else {"oldContent": before, "newContent": text}
    kind = "create" if before is None else "edit"
    if not is_allowed((one, kind, {"filePath": str(file.absolute()), **shown})):
        return False
    file.write_text(text)
    result(one, json.dumps({"success": True}), isError=False)
    return True


def other(name: str, kind: str, args: dict[str, Any], **details: Any) -> bool:
    one = use(name, args)
    announce(one)
    if not is_allowed((one, kind, details)):
        return False
    result(one, f"{name} is done", isError=False)
    return True


def work(text: str) -> str:
    """Do what a message says; returns the reason why its turn ends."""
    if "have not started" in text:  # "You were interrupted …": it makes its call again
        text = text.strip().split("\n")[-1]
    word, _, rest = text.partition(" ")
    if word in REPLIES:
        return REPLIES[word](rest)
    if word not in ACTIONS:
        say(f"heard: {text}")
        return "completed"
    done = ACTIONS[word](rest)
    if interrupted.is_set():
        return "cancelled"
    if done:
        say("done")
    return "completed"


# --- words whose turn ends with a text of its own --------------------------------------------------------------------


def reply(text: str) -> str:
    say(text)
    return "completed"


def garbage(_: str) -> str:
    with output:
        sys.stdout.write("Updating droid... 42%\n\n[1, 2]\n\n" + "[" * 5000 + "]" * 5000 + "\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(b'{"type": "\xff"}\n')
    notify("brand_new_kind", what={"ever": 1})
    notify("tool_result", content=7)
    return reply("still here")


def fail(message: str) -> str:
    notify("error", message=message, errorType="llm")
    return "error"


REPLIES: dict[str, Callable[[str], str]] = {
    "say": reply,
    "garbage": garbage,
    "fail": fail,
    "recall": lambda _: reply(f"{current['before'] - 1} before"),
    "shows": lambda name: reply(f"{name}={os.environ.get(name, '')}"),
    "You": lambda _: reply("went on"),  # "You were interrupted …"
}


# --- words that do something; False if it was denied -----------------------------------------------------------------


def think(text: str) -> bool:
    notify("thinking_text_delta", messageId="thought", blockIndex=0, textDelta=text)
    return True


def look(path: str) -> bool:
    call = use("Read", {"file_path": path})
    announce(call)
    result(call, Path(path).read_text(), isError=False)
    return True


def patch(paths: str) -> bool:
    files = "\n".join(f"*** Update File: {path}" for path in paths.split())
    return other("ApplyPatch", "apply_patch", {"input": f"*** Begin Patch\n{files}\n*** End Patch"})


def strange(command: str) -> bool:
    call = use("Execute", {"command": command})
    announce(call)
    chosen = request("request_permission", toolUses=[{"toolUse": 7}])["selectedOption"]
    result(call, "Error: Tool execution cancelled by user", isError=True)
    return chosen != "cancel"


def question(text: str) -> bool:
    call = use("AskUser", {"questionnaire": text})
    announce(call)
    asked = {"index": 1, "topic": "t", "question": text, "options": ["a", "b"]}
    is_cancelled = request("ask_user", toolCallId=call["id"], questions=[asked]).get("cancelled", True)
    result(call, "Error: Tool execution cancelled by user", isError=True)
    return not is_cancelled


def plan(text: str) -> bool:
    call = use("ExitSpecMode", {"plan": text})
    announce(call)
    return is_allowed((call, "exit_spec_mode", {"plan": text}))


def wait(_: str) -> bool:
    say("waiting for it\n")
    return interrupted.wait()


def mute(_: str) -> bool:
    sys.stdout.flush()
    os.close(1)
    return threading.Event().wait()


def die(_: str) -> bool:
    sys.stderr.write("droid met its end\n")
    sys.stderr.flush()
    os._exit(3)


ACTIONS: dict[str, Callable[[str], bool]] = {
    "think": think,
    "look": look,
    "run": run,
    "both": lambda rest: run(*(command.strip() for command in rest.split("|"))),
    "same": lambda rest: all(run(command.strip(), call_id="call_1") for command in rest.split("|")),
    "edit": lambda rest: change(*rest.split(" ", 1)),
    "patch": patch,
    "fetch": lambda url: other("FetchUrl", "exec", {"url": url}, fullCommand=f"Fetch URL: {url}"),
    "other": lambda name: other(name, "mcp_tool", {"size": 3}, toolName=name),
    "strange": strange,
    "question": question,
    "plan": plan,
    "wait": wait,
    "mute": mute,
    "die": die,
}


# --- the protocol ----------------------------------------------------------------------------------------------------


def usage() -> dict[str, int]:
    turns = current["before"]
    return {"inputTokens": 15 * turns, "outputTokens": 10 * turns, "cacheReadTokens": 5 * turns}


def turns() -> None:
    """Process the queued messages one by one."""
    while True:
        with changed:
            changed.wait_for(lambda: bool(queue))
            request_id, text = queue.pop(0)
        interrupted.clear()
        current["before"] += 1
        sessions[current["id"]] = {"before": current["before"]}
        STORE.write_text(json.dumps(sessions))
        state("thinking")
        turn_id = str(uuid.uuid4())
        more = {} if OLD else {"requestId": request_id}
        message("user", [{"type": "text", "text": text}], turn_id, **more)
        reason = work(text)
        notify("session_token_usage_changed", tokenUsage=usage())
        if not OLD:
            notify("agent_turn_completed", reason=reason, turnId=turn_id, cumulativeTokenUsage=usage())
        state("idle")


def read_image(source: dict[str, Any]) -> str:
    assert source["type"] == "base64"
    return f"<{source['mediaType']} {hashlib.sha256(base64.b64decode(source['data'])).hexdigest()[:8]}>"


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    params = asked.get("params", {})
    match asked["method"]:
        case "droid.initialize_session":
            current.update(id=str(uuid.uuid4()), before=0)
            return {"result": {"sessionId": current["id"], "session": {"messages": []}, "settings": params}}
        case "droid.load_session":
            if params["sessionId"] not in sessions:
                return {"error": {"code": -32004, "message": "Session not found"}}
            current.update(id=params["sessionId"], **sessions[params["sessionId"]])
            return {"result": {"session": {"messages": []}, "settings": {}, "tokenUsage": usage()}}
        case "droid.add_user_message":
            if "refusing" in MODES:
                return {"error": {"code": -32603, "message": "not today"}}
            if params["text"].startswith("blind") and params.get("images"):
                return {"error": {"code": -32603, "message": "the image is too large"}}
            with changed:
                words = [params["text"], *map(read_image, params.get("images", ()))]
                queue.append((asked["id"], " ".join(words).strip()))
                changed.notify_all()
        case "droid.interrupt_session":
            interrupted.set()
        case _:
            pass
    return {"result": {}}


def main() -> None:
    if "dead" in MODES:
        sys.exit("droid: no")
    threading.Thread(target=turns, daemon=True).start()
    for line in sys.stdin:
        if record := os.environ.get("FACTORY_FAKE_RECORD"):
            with Path(record).open("a") as file:
                file.write(line)
        asked = json.loads(line)
        if "deaf" in MODES and asked.get("type") == "request":
            continue
        if asked.get("type") == "response":
            with changed:
                answers[asked["id"]] = asked["result"]
                changed.notify_all()
            continue
        reply = answer(asked)
        if "nameless" in MODES:
            write(type="response", id=None, error={"code": -32600, "message": "Invalid request format"})
        else:
            write(type="response", id=asked["id"], **reply)


main()
