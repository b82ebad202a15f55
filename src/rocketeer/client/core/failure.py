"""Why a try failed, in texts short enough for the properties of a dead letter. Pure."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketeer.model import property_names as names

REASON_CHARS_MAX: Final = 500
TRACE_CHARS_MAX: Final = 1500
FRAMES_MAX: Final = 12
# Shortens what a person reads of a dead letter, by where a function's file lies; nothing is decided by it.
_OURS: Final = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class Failure:
    """What the last try of a dead letter ended with, where that was, and in which client.

    Rocketeer's brokers keep it; with Apache's the client's log has it.
    """

    reason: str
    """The error's class and text, in one line."""
    trace: str = ""
    """The user's own functions, outermost first: `bill (shop.py:12) > charge (bank.py:40)`."""
    client: str = ""
    """The client id."""

    @classmethod
    def of(cls, error: BaseException, client: str) -> "Failure":
        """The failure that an error of a listener makes."""
        reason = _one_line(f"{type(error).__qualname__}: {error}")
        cause = error.__cause__
        if cause is not None and f"{cause}" not in reason:
            reason += f" (from {_one_line(f'{type(cause).__qualname__}: {cause}')})"
        frames = [
            f"{frame.name} ({Path(frame.filename).name}:{frame.lineno})"
            for frame in traceback.extract_tb(error.__traceback__, limit=-50)
            if not frame.filename.startswith(_OURS)
        ]
        return cls(reason[:REASON_CHARS_MAX], " > ".join(frames[-FRAMES_MAX:])[-TRACE_CHARS_MAX:], client)

    @classmethod
    def found_in(cls, properties: Mapping[str, str]) -> "Failure | None":
        """Read the failure from a dead letter's properties; None where there is none."""
        reason = properties.get(names.FAILURE_REASON)
        if reason is None:
            return None
        return cls(reason, properties.get(names.FAILURE_TRACE, ""), properties.get(names.FAILURE_CLIENT, ""))

    def properties(self) -> dict[str, str]:
        """The failure as properties of a dead letter."""
        said = {
            names.FAILURE_REASON: self.reason,
            names.FAILURE_TRACE: self.trace,
            names.FAILURE_CLIENT: self.client,
        }
        return {name: text for name, text in said.items() if text}


def _one_line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
