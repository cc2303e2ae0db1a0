"""A program that speaks Droid's JSON-RPC on stdin and stdout and does what the first word of a message says.

say, think, look FILE, run COMMAND, both COMMAND | COMMAND, same COMMAND | COMMAND, edit PATH TEXT, patch PATH PATH,
fetch URL, other NAME, strange, question TEXT, plan TEXT, shows NAME, wait, die, mute, garbage, fail TEXT, recall. Its
sessions are kept in .fake-droid.json in its working directory. FACTORY_FAKE steers how it speaks: old (no tool_call, no
ids, and no end of a turn but being idle), double (everything twice), numbers (ids that are none but numbers), deaf,
dead, nameless (errors without an id), refusing.
"""

import json
import os
import subprocess
import sys
import threading
import uuid
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


def tell(kind: str, **fields: Any) -> None:
    times = 2 if "double" in MODES and not kind.endswith("_delta") else 1
    for _ in range(times):
        params = {"notification": {"type": kind, **fields}, "sessionId": current["id"]}
        write(type="notification", method="droid.session_notification", params=params)


def state(name: str) -> None:
    tell("droid_working_state_changed", newState=name)


def message(role: str, content: list[dict[str, Any]], message_id: str = "", **more: Any) -> None:
    tell("create_message", message={"id": message_id or str(uuid.uuid4()), "role": role, "content": content}, **more)


def say(text: str) -> None:
    message_id = str(uuid.uuid4())
    state("streaming_assistant_message")
    if not OLD:
        first, *others = text.split(" ")
        for piece in [first, *(f" {word}" for word in others)]:
            tell("assistant_text_delta", messageId=message_id, blockIndex=0, textDelta=piece)
    message("assistant", [{"type": "text", "text": text}], message_id)


def use(name: str, args: dict[str, Any], call_id: str = "") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id or f"call-{uuid.uuid4()}", "name": name, "input": args}


def announce(*uses: dict[str, Any]) -> None:
    if not OLD:
        for one in uses:
            tell("tool_call", toolUse={**one, "input": {}})
            tell("tool_call", toolUse=one)
    message("assistant", list(uses))
    state("executing_tool")


def result(one: dict[str, Any], text: str, **more: Any) -> None:
    tell("tool_result", toolUseId=one["id"], messageId=str(uuid.uuid4()), content=text, **more)


def request(method: str, **params: Any) -> dict[str, Any]:
    """Ask the client; what it answered, or a cancel where it was interrupted meanwhile."""
    request_id: Any = next(numbers) if "numbers" in MODES else str(uuid.uuid4())
    write(type="request", id=request_id, method=f"droid.{method}", params=params)
    with changed:
        while request_id not in answers and not interrupted.is_set():
            changed.wait(0.05)
        return answers.pop(request_id, {"selectedOption": "cancel"})


def allowed(*asked: tuple[dict[str, Any], str, dict[str, Any]]) -> bool:
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
    if not allowed(*((one, "exec", {"fullCommand": one["input"]["command"]}) for one in uses)):
        return False
    for one in uses:
        done = subprocess.run(["sh", "-c", one["input"]["command"]], capture_output=True, text=True, check=False)
        tell("tool_progress_update", toolUseId=one["id"], toolName="Execute", update={"fullOutput": done.stdout})
        more = {} if OLD else {"isError": done.returncode != 0}
        result(one, f"{done.stdout}\n\n[Process exited with code {done.returncode}]", **more)
    return True


def change(path: str, text: str) -> bool:
    file = Path(path)
    before = file.read_text() if file.exists() else None
    one = use("Create" if before is None else "Edit", {"file_path": str(file.absolute()), "content": text})
    announce(one)
    shown = {"content": text} if before is None else {"oldContent": before, "newContent": text}
    kind = "create" if before is None else "edit"
    if not allowed((one, kind, {"filePath": str(file.absolute()), **shown})):
        return False
    file.write_text(text)
    result(one, json.dumps({"success": True}), isError=False)
    return True


def other(name: str, kind: str, args: dict[str, Any], **details: Any) -> bool:
    one = use(name, args)
    announce(one)
    if not allowed((one, kind, details)):
        return False
    result(one, f"{name} is done", isError=False)
    return True


def work(text: str) -> str:  # noqa: C901 - one arm per word
    """Do what a message says; the reason why its turn ends."""
    word, _, rest = text.partition(" ")
    done = True
    match word:
        case "say":
            say(rest)
            return "completed"
        case "think":
            tell("thinking_text_delta", messageId="thought", blockIndex=0, textDelta=rest)
        case "look":
            one = use("Read", {"file_path": rest})
            announce(one)
            result(one, Path(rest).read_text(), isError=False)
        case "run":
            done = run(rest)
        case "both":
            done = run(*(command.strip() for command in rest.split("|")))
        case "same":
            done = all(run(command.strip(), call_id="call_1") for command in rest.split("|"))
        case "edit":
            done = change(*rest.split(" ", 1))
        case "patch":
            files = "\n".join(f"*** Update File: {path}" for path in rest.split())
            done = other("ApplyPatch", "apply_patch", {"input": f"*** Begin Patch\n{files}\n*** End Patch"})
        case "fetch":
            done = other("FetchUrl", "exec", {"url": rest}, fullCommand=f"Fetch URL: {rest}")
        case "other":
            done = other(rest, "mcp_tool", {"size": 3}, toolName=rest)
        case "strange":
            one = use("Execute", {"command": rest})
            announce(one)
            done = request("request_permission", toolUses=[{"toolUse": 7}])["selectedOption"] != "cancel"
            result(one, "Error: Tool execution cancelled by user", isError=True)
        case "question":
            one = use("AskUser", {"questionnaire": rest})
            announce(one)
            question = {"index": 1, "topic": "t", "question": rest, "options": ["a", "b"]}
            done = not request("ask_user", toolCallId=one["id"], questions=[question]).get("cancelled", True)
            result(one, "Error: Tool execution cancelled by user", isError=True)
        case "plan":
            one = use("ExitSpecMode", {"plan": rest})
            announce(one)
            done = allowed((one, "exit_spec_mode", {"plan": rest}))
        case "wait":
            say("waiting for it\n")
            interrupted.wait()
        case "mute":
            sys.stdout.flush()
            os.close(1)
            threading.Event().wait()
        case "die":
            sys.stderr.write("droid met its end\n")
            sys.stderr.flush()
            os._exit(3)
        case "garbage":
            with output:
                sys.stdout.write("Updating droid... 42%\n\n[1, 2]\n\n" + "[" * 5000 + "]" * 5000 + "\n")
                sys.stdout.flush()
                sys.stdout.buffer.write(b'{"type": "\xff"}\n')
            tell("brand_new_kind", what={"ever": 1})
            tell("tool_result", content=7)
            say("still here")
            return "completed"
        case "fail":
            tell("error", message=rest, errorType="llm")
            return "error"
        case "recall":
            say(f"{current['before'] - 1} before")
            return "completed"
        case "shows":
            say(f"{rest}={os.environ.get(rest, '')}")
            return "completed"
        case "You":
            say("went on")
            return "completed"
        case _:
            say(f"heard: {text}")
            return "completed"
    if interrupted.is_set():
        return "cancelled"
    if done:
        say("done")
    return "completed"


def usage() -> dict[str, int]:
    turns = current["before"]
    return {"inputTokens": 15 * turns, "outputTokens": 10 * turns, "cacheReadTokens": 5 * turns}


def turns() -> None:
    """Work off what was sent, message by message."""
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
        tell("session_token_usage_changed", tokenUsage=usage())
        if not OLD:
            tell("agent_turn_completed", reason=reason, turnId=turn_id, cumulativeTokenUsage=usage())
        state("idle")


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
            with changed:
                queue.append((asked["id"], params["text"]))
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
