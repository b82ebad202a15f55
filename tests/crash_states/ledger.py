"""What was asked and what was promised up to a moment of the record."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crash_states.load import body_of, name_of
from crash_states.trace import Kind, Op
from rocketeer.errors import BadRecord
from rocketeer.record.layout import decode_record

MESSAGES = frozenset(
    {"plain", "keyed", "ordered", "batch", "delayed", "timed", "half", "sequenced", "dedup", "gone", "forged"}
)


@dataclass
class Request:
    """Something a client asked for: `sent` and `answered` are moments of the record."""

    number: int
    kind: str
    fields: dict[str, Any]
    sent: int
    answered: int | None = None
    good: bool = False
    answer: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.fields.get("bodies", ())]

    @property
    def topic(self) -> str:
        return str(self.fields["topic"])


@dataclass(frozen=True)
class Place:
    """A message as the broker said where it is."""

    request: Request
    name: str
    queue_id: int
    queue_offset: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A record that the broker wrote to its log."""

    moment: int
    log_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    name: str


class History:
    """Everything of a record that concerns promises; `at` gives the part up to a moment."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.requests: list[Request] = []
        self.bodies: dict[str, bytes] = {}
        self.stored: list[Stored] = []
        self.starts: list[int] = []
        by_number: dict[int, Request] = {}
        for moment, op in enumerate(ops, start=1):
            if op.kind is Kind.SENT:
                fields = op.fields
                request = Request(fields["id"], fields["kind"], fields, moment)
                by_number[request.number] = request
                self.requests.append(request)
                for name, size in fields.get("bodies", ()):
                    self.bodies[name] = body_of(name, size)
            elif op.kind is Kind.ANSWERED:
                fields = op.fields
                request = by_number[fields["id"]]
                request.answered, request.good, request.answer = moment, fields["good"], fields["ext"]
            elif op.kind is Kind.START:
                self.starts.append(moment)
            elif op.kind is Kind.WRITE and op.path.startswith("commitlog/"):
                self._note_records(moment, op)

    def _note_records(self, moment: int, op: Op) -> None:
        """What one write put into the log: whole records, or the blank that ends a file."""
        at = 0
        while at < len(op.data):
            try:
                record = decode_record(op.data, at)
            except BadRecord:
                return
            if record.log_offset == int(op.path.rpartition("/")[2]) + op.a + at:
                name = name_of(record.body)
                place = (record.topic, record.queue_id, record.queue_offset)
                self.stored.append(Stored(moment, record.log_offset, record.size, *place, name))
            at += record.size

    def at(self, moment: int, log_floor: int) -> "Ledger":
        return Ledger(self, moment, log_floor)


class Ledger:
    """The part of a history that was over at `moment`; messages below `log_floor` were deleted by retention."""

    def __init__(self, history: History, moment: int, log_floor: int) -> None:
        self._history = history
        self.moment = moment
        self.log_floor = log_floor
        self.requests = [each for each in history.requests if each.sent <= moment]
        self.bodies = history.bodies
        self.sent_names = {name for each in self.requests for name in each.names}

    def is_answered(self, request: Request) -> bool:
        return request.answered is not None and request.answered <= self.moment and request.good

    def of(self, *kinds: str) -> list[Request]:
        return [each for each in self.requests if each.kind in kinds]

    def places(self, *kinds: str) -> list[Place]:
        """Where acknowledged messages of these kinds are."""
        found = []
        for request in self.of(*kinds):
            if self.is_answered(request):
                ids = request.answer["msgId"].split(",")
                first = int(request.answer["queueOffset"])
                for number, (name, message_id) in enumerate(zip(request.names, ids, strict=True)):
                    queue_id, log_offset = int(request.answer["queueId"]), int(message_id[-16:], 16)
                    found.append(Place(request, name, queue_id, first + number, log_offset))
        return found

    def stored(self) -> dict[int, Stored]:
        """Records of the log by their offset; a later write to the same place replaces all from there on."""
        found: dict[int, Stored] = {}
        end = 0
        for each in self._history.stored:
            if each.moment > self.moment:
                break
            if each.log_offset < end:
                found = {at: old for at, old in found.items() if at < each.log_offset}
            found[each.log_offset] = each
            end = each.log_offset + 1
        return found

    # --- topics that were deleted ------------------------------------------------------------

    def must_be_there(self, request: Request) -> bool:
        """An acknowledged message of a topic: no deletion could have met it."""
        return self.is_answered(request) and all(
            self.is_answered(each) and each.answered is not None and each.answered < request.sent
            for each in self._deletions(request.topic)
        )

    def must_be_gone(self, request: Request) -> bool:
        """A deletion that was acknowledged began after the message was."""
        return any(
            self.is_answered(each) and request.answered is not None and each.sent > request.answered
            for each in self._deletions(request.topic)
        )

    def _deletions(self, topic: str) -> list[Request]:
        return [each for each in self.of("delete") if each.topic == topic]
