"""Single commands and stored messages of the recordings with RocketMQ 4.9.8, by scenario and request code."""

import json
from pathlib import Path
from typing import Any

from rocketeer.protocol.command import Command, decode

_WIRE = Path(__file__).parents[1] / "golden" / "data" / "wire"


def recorded_commands(scenario: str, code: int, *, reply: bool = False) -> list[Command]:
    """The requests with this code, or the replies to them, in the order they were seen."""
    found = []
    for line in (_WIRE / f"{scenario}.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if "frame_hex" not in frame or (frame["dir"] == "response") is not reply:
            continue
        if frame.get("request_code", frame["header"]["code"]) == code:
            found.append(decode(bytes.fromhex(frame["frame_hex"])))
    return found


def recorded_command(scenario: str, code: int, *, reply: bool = False) -> Command:
    """The first of them."""
    found = recorded_commands(scenario, code, reply=reply)
    assert found, f"{scenario} has no {'reply to' if reply else 'request with'} code {code}"
    return found[0]


def recorded_messages(scenario: str, topic: str) -> list[dict[str, Any]]:
    """What was stored in a topic while the scenario ran."""
    lines = (_WIRE / f"{scenario}.stored.jsonl").read_text().splitlines()
    return [message for line in lines if line and (message := json.loads(line))["topic"] == topic]
