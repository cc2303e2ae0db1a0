"""A program that timestamps each line it writes: `ticker.py raw COUNT GAP`, or as Droid would, when asked to.

The stamps are of the system-wide monotonic clock, so that whoever reads a line knows how long it was under way.
"""

import json
import sys
import time
from typing import Any

SESSION = "the-session"


def put(**fields: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", **fields}) + "\n")
    sys.stdout.flush()


def notify(**notification: Any) -> None:
    params = {"sessionId": SESSION, "notification": notification}
    put(type="notification", method="droid.session_notification", params=params)


def tick(kind: str, count: int, gap: float) -> None:
    stamps: list[str] = []
    for _ in range(count):
        time.sleep(gap)
        stamps.append(str(time.monotonic_ns()))
        match kind:
            case "events":
                notify(type="llm_retry", attempt=0, reason=stamps[-1])
            case "deltas":
                notify(type="assistant_text_delta", messageId="m", blockIndex=0, textDelta="tea ")
            case _:
                put(reason=stamps[-1])
    if kind == "deltas":  # text with digits is held back longer by redaction, so these arrive separately
        notify(type="llm_retry", attempt=0, reason=" ".join(stamps))


def work(text: str, request_id: str) -> None:
    """`events COUNT GAP` or `deltas COUNT GAP`, as a turn of Droid's."""
    kind, count, gap = text.split()
    notify(type="droid_working_state_changed", newState="thinking")
    said = {"id": request_id, "role": "user", "content": [{"type": "text", "text": text}]}
    notify(type="create_message", message=said, requestId=request_id)
    tick(kind, int(count), float(gap))
    notify(type="agent_turn_completed", reason="completed", turnId=request_id)
    notify(type="droid_working_state_changed", newState="idle")


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        put(type="response", id=asked["id"], result={"sessionId": SESSION})
        if asked["method"] == "droid.add_user_message":
            work(asked["params"]["text"], asked["id"])


if __name__ == "__main__":
    if sys.argv[1] == "raw":
        tick("raw", int(sys.argv[2]), float(sys.argv[3]))
    else:
        main()
