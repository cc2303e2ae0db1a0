"""An agent that speaks ACP on stdin and stdout and does what the first word of a message says.

say, think, look, run COMMAND, edit PATH TEXT, patch PATHS, there DIRECTORY COMMAND, fetch URL, always COMMAND, wait,
die, mute, fail, garbage, recall, refuse, codex COMMAND, anyway COMMAND, deaf, blind (fails on images); an image is a
word of the message: its type and the beginning of its digest. Its sessions are stored in
.fake-agent.json in its working directory, so that they can be resumed.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODE = os.environ.get("FAKE_AGENT", "")
STORE = Path(".fake-agent.json")
MODES = {"planless": ("normal",), "yolo": ("full-access", "auto", "read-only")}
output = threading.Lock()
waiting: dict[int, "list[Any]"] = {}
answered = threading.Condition()
cancelled = threading.Event()
sessions: dict[str, list[str]] = json.loads(STORE.read_text()) if STORE.exists() else {}
numbers = iter(range(1000, 10_000))


def write(message: dict[str, Any]) -> None:
    with output:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def update(session: str, **fields: Any) -> None:
    write({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def chunk(session: str, text: str, kind: str = "agent_message_chunk") -> None:
    update(session, sessionUpdate=kind, content={"type": "text", "text": text})


def ask(session: str, call: dict[str, Any], options: tuple[str, ...] = ("allow_once", "reject_once")) -> str:
    """Ask for permission; returns the kind of option that was chosen, or cancelled."""
    number = next(numbers)
    offered = [{"optionId": f"id-{kind}", "name": kind, "kind": kind} for kind in options]
    with answered:
        waiting[number] = []
    write(
        {
            "id": number,
            "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": call, "options": offered},
        }
    )
    with answered:
        while not waiting[number] and not cancelled.is_set():
            answered.wait(0.05)
        reply = waiting.pop(number)
    outcome = reply[0]["outcome"] if reply else {"outcome": "cancelled"}
    return str(outcome.get("optionId", "cancelled")).removeprefix("id-")


def call(session: str, kind: str, title: str, raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    started = {"toolCallId": f"call-{next(numbers)}", "title": title, "kind": kind, "status": "pending"}
    update(session, sessionUpdate="tool_call", **started, rawInput={})
    return {**started, "rawInput": raw, **more}


def end(session: str, started: dict[str, Any], text: str, *, failed: bool = False) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    status = "failed" if failed else "completed"
    update(session, sessionUpdate="tool_call_update", toolCallId=started["toolCallId"], status=status, content=content)


def do_if_allowed(session: str, started: dict[str, Any], work: Callable[[], str], *options: str) -> str:
    """Ask for permission, do the work and report it."""
    chosen = ask(session, started, options or ("allow_once", "reject_once"))
    if chosen not in ("allow_once", "allow_always"):
        end(session, started, f"not done: {chosen}", failed=True)
        return chosen
    update(session, sessionUpdate="tool_call_update", toolCallId=started["toolCallId"], status="in_progress")
    end(session, started, work())
    return "done"


def shell(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _get(url: str) -> str:
    with urllib.request.urlopen(url) as reply:  # noqa: S310 - a test's own server
        return reply.read().decode()


def obey(session: str, text: str) -> str:
    """Do what the message says; returns the stop reason."""
    if "You were interrupted" in text and "have not started" not in text:
        chunk(session, "went on")
        return "end_turn"
    word, _, rest = text.strip().split("\n")[-1].partition(" ")
    if word in STOPS:
        return STOPS[word](session)
    if word in ACTIONS:
        ACTIONS[word](session, rest)
    else:
        for piece in text.removeprefix("say ").split(" "):
            chunk(session, piece + " ")
    return "end_turn"


def codex(session: str, command: str) -> None:
    """As Codex does it: its question is the content, and the output comes raw."""
    question = [{"type": "content", "content": {"type": "text", "text": "May I do it?"}}]
    raw = {"command": ["/bin/bash", "-lc", command], "reason": "May I do it?"}
    started = {"toolCallId": f"call-{next(numbers)}", "title": command, "kind": "execute", "status": "pending"}
    chosen = ask(session, {**started, "rawInput": raw, "content": question})
    if chosen == "allow_once":
        update(session, sessionUpdate="tool_call", **{**started, "status": "in_progress"}, rawInput=raw)
        text = shell(command)
        output = {"stdout": text, "formatted_output": text, "exit_code": 0}
        ended = {"toolCallId": started["toolCallId"], "status": "completed", "rawOutput": output}
        update(session, sessionUpdate="tool_call_update", **ended)
    chunk(session, "ran")


def anyway(session: str, command: str) -> None:
    """It asks, and does not listen."""
    started = call(session, "execute", "bash", {"command": command})
    ask(session, started)
    end(session, started, shell(command))
    chunk(session, "ran it anyway")


def think(session: str, text: str) -> None:
    chunk(session, text, "agent_thought_chunk")
    chunk(session, "thought")


def look(session: str, path: str) -> None:
    started = call(session, "read", "read", {"path": path})
    update(session, sessionUpdate="tool_call_update", **{**started, "status": "in_progress"})
    end(session, started, f"contents of {path}")
    chunk(session, "looked")


def run(session: str, command: str, *options: str) -> None:
    started = call(session, "execute", "bash", {"command": command})
    chunk(session, do_if_allowed(session, started, lambda: shell(command), *options))


def edit(session: str, change: str) -> None:
    name, _, new = change.partition(" ")
    path = Path(name).absolute()
    old = path.read_text() if path.exists() else ""
    diff = [{"type": "diff", "path": str(path), "oldText": old, "newText": new}]
    started = call(session, "edit", "edit", {"filePath": str(path), "content": new}, content=diff)
    chunk(session, do_if_allowed(session, started, lambda: f"{path.write_text(new)} bytes"))


def patch(session: str, names: str) -> None:
    diff = [{"type": "diff", "path": name, "oldText": "", "newText": "new"} for name in names.split()]
    started = call(session, "edit", "edit", {}, content=diff)
    chunk(session, do_if_allowed(session, started, lambda: "patched"))


def run_in(session: str, rest: str) -> None:
    where, _, command = rest.partition(" ")
    started = call(session, "execute", "bash", {"command": command, "cwd": where})
    chunk(session, do_if_allowed(session, started, lambda: shell(f"cd {where} && {command}")))


def fetch(session: str, url: str) -> None:
    started = call(session, "fetch", "fetch", {"url": url})
    chunk(session, do_if_allowed(session, started, lambda: _get(url)))


def mute(_session: str, _rest: str) -> None:
    sys.stdout.flush()
    os.close(1)
    threading.Event().wait()


def die(session: str, _rest: str) -> None:
    chunk(session, "dying")
    sys.stderr.write("the agent met its end\n")
    sys.stderr.flush()
    os._exit(7)


def garbage(session: str, _rest: str) -> None:
    with output:
        sys.stdout.write('this is not JSON\n{"half": \n[]\n5\nnull\n{"id": [], "result": 1}\n')
        sys.stdout.write("[" * 5000 + "]" * 5000 + "\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(b'{"id": 0, "method": "\xff"}\n')
    chunk(session, "half a character: \ud800")
    started = {"sessionUpdate": "tool_call", "toolCallId": "deep", "kind": "read", "status": "in_progress"}
    update(session, **started, rawInput=json.loads('{"a":' * 200 + "1" + "}" * 200))
    update(session, sessionUpdate="of_another_kind", content=[1, 2])
    update(session, sessionUpdate="agent_message_chunk", content="no object")
    chunk(session, "still here")


def deaf(session: str) -> str:
    """It ignores a cancel."""
    chunk(session, "not listening\n")
    threading.Event().wait()
    return "end_turn"


def wait(session: str) -> str:
    chunk(session, "waiting for it\n")
    cancelled.wait()
    return "cancelled"


ACTIONS: dict[str, Callable[[str, str], None]] = {
    "think": think,
    "codex": codex,
    "anyway": anyway,
    "look": look,
    "run": run,
    "always": lambda session, command: run(session, command, "allow_always", "reject_once"),
    "edit": edit,
    "patch": patch,
    "there": run_in,
    "fetch": fetch,
    "mute": mute,
    "die": die,
    "garbage": garbage,
    "recall": lambda session, _: chunk(session, f"{len(sessions[session]) - 1} before"),
}
STOPS: dict[str, Callable[[str], str]] = {
    "wait": wait,
    "deaf": deaf,
    "fail": lambda _: "",
    "refuse": lambda _: "refusal",
}


def prompt(number: int, session: str, text: str) -> None:
    sessions[session].append(text)
    STORE.write_text(json.dumps(sessions))
    stop = obey(session, text)
    if not stop:
        write({"id": number, "error": "an error in an unexpected shape"})
        return
    usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10}
    write({"id": number, "result": {"stopReason": "cancelled" if cancelled.is_set() else stop, "usage": usage}})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    session = params.get("sessionId", "")
    match method:
        case "initialize":
            resume = {} if MODE == "forgetful" else {"loadSession": True}
            seeing = {} if MODE == "sightless" else {"promptCapabilities": {"image": True}}
            return {"protocolVersion": 9 if MODE == "future" else 1, "agentCapabilities": {**resume, **seeing}}
        case "session/new":
            session = "" if MODE == "nameless" else f"theirs-{os.getpid()}-{len(sessions)}"
            sessions[session] = []
            current, *others = MODES.get(MODE, ("normal", "plan"))
            modes = [{"id": name, "name": name} for name in (current, *others)]
            return {"sessionId": session, "modes": {"currentModeId": current, "availableModes": modes}}
        case "session/load":
            for text in sessions[session]:
                chunk(session, f"again: {text}")
            return {}
        case _:
            STORE.with_suffix(".asked").write_text(json.dumps([method, params]))
            return {}


def read_block(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return block["text"]
    return f"<{block['mimeType']} {hashlib.sha256(base64.b64decode(block['data'])).hexdigest()[:8]}>"


def main() -> None:
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        params: dict[str, Any] = message.get("params") or {}
        number, method = message.get("id", 0), message.get("method")
        if method is None:
            with answered:
                waiting.get(number, []).append(message.get("result"))
                answered.notify_all()
        elif method == "session/prompt":
            cancelled.clear()
            said = " ".join(map(read_block, params["prompt"]))
            if said.startswith("blind") and len(params["prompt"]) > 1:
                write({"id": number, "error": {"code": -32602, "message": "the image is too large"}})
                continue
            threading.Thread(target=prompt, args=(number, params["sessionId"], said), daemon=True).start()
        elif method == "session/cancel":
            cancelled.set()
        elif MODE == "login" and method == "session/new":
            write({"id": number, "error": {"code": -32000, "message": "Authentication required"}})
        elif method == "session/load" and params.get("sessionId") not in sessions:
            write({"id": number, "error": {"code": -32002, "message": "no such session"}})
        else:
            write({"id": number, "result": answer(method, params)})


main()
