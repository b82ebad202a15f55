"""What an idempotent producer keeps for each queue: the next number, and the sends whose fate is unknown.

A number is given to no other message until the broker has said what became of the first: taken twice, the second
message would pass for a resend of the first, and be lost.
"""

import secrets
from collections.abc import Callable

import msgspec

from rocketeer.client.core.batch_items import check_properties
from rocketeer.client.core.encoding import Outgoing, joined_body
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import ClientError
from rocketeer.model.property_names import DEDUP_ID, PRODUCER_ID, PRODUCER_SEQ
from rocketeer.record.batch import BatchItem, encode_batch, iter_batch
from rocketeer.record.properties import encode_properties, find_property

_DEDUP: bytes = DEDUP_ID.encode()


class PendingSend(msgspec.Struct, eq=False):
    """One send on its way: its number, and what became of it."""

    plain: Outgoing
    number: int
    outgoing: Outgoing
    """As it is sent: with the number."""
    in_doubt: bool = False
    """It has left, and no answer came: it may be stored or not."""
    failed: bool = False
    """An attempt has ended without an answer: others wait until this one is settled."""
    result: SendResult | None = None
    error: Exception | None = None

    @property
    def settled(self) -> bool:
        return self.result is not None or self.error is not None


class QueueSequence(msgspec.Struct, eq=False):
    """One queue of one producer. `next` is the number of the next send, None until the broker was asked."""

    producer_id: str
    renewable: bool
    """The id is ours: another one may take its place. One the user gave may not."""
    next: int | None = None
    pending: list[PendingSend] = msgspec.field(default_factory=list)
    """Not settled yet, in the order of their numbers."""

    @property
    def recovering(self) -> bool:
        return any(pending.failed for pending in self.pending)

    def take(self, plain: Outgoing) -> PendingSend:
        assert self.next is not None
        pending = PendingSend(plain, self.next, with_sequence_number(plain, self.producer_id, self.next))
        self.next += count_of(plain)
        self.pending.append(pending)
        return pending

    def stored(self, pending: PendingSend, result: SendResult | None, error: Exception | None = None) -> None:
        pending.result, pending.error = result, error
        self.pending.remove(pending)

    def not_stored(self, pending: PendingSend, error: Exception) -> None:
        """It is refused, or never left. Nothing behind it can be stored: the broker leaves no gap."""
        pending.error = error
        place = self.pending.index(pending)
        self.pending.remove(pending)
        if place == len(self.pending):
            self.next = pending.number
        else:
            self.renew()

    def renew(self) -> None:
        """Begin again as somebody else, with what is open.

        What may still be on its way under the old name and number is refused there for good.
        """
        assert self.renewable, "others are sent one at a time"
        self.producer_id = new_producer_id()
        self.next = 0
        for pending in self.pending:
            pending.number = self.next
            pending.outgoing = with_sequence_number(pending.plain, self.producer_id, self.next)
            pending.in_doubt = False
            self.next += count_of(pending.plain)


def new_producer_id() -> str:
    return f"auto-{secrets.token_hex(12)}"


def count_of(outgoing: Outgoing) -> int:
    """How many messages the request carries."""
    return outgoing.message_ids.count(",") + 1


def dedup_id(outgoing: Outgoing) -> str | None:
    """The id the user gave the message, or the first of a batch: such messages need no numbers."""
    if not outgoing.batch:
        return outgoing.properties.get(DEDUP_ID)
    ids = [find_property(item.properties, _DEDUP) for item in iter_batch(outgoing.body)]
    if any(ids) and not all(ids):
        raise ClientError(f"some messages of the batch have a {DEDUP_ID} and some have none: all or none do")
    return None if ids[0] is None else ids[0].decode("utf-8", "replace")


def with_producer_id(outgoing: Outgoing, producer_id: str) -> Outgoing:
    """The request with the producer's id, for messages that have an id of their own."""
    return _marked(outgoing, lambda place: {PRODUCER_ID: producer_id})


def with_sequence_number(outgoing: Outgoing, producer_id: str, first: int) -> Outgoing:
    """The request with the producer's id and the messages' numbers, from `first` on."""
    return _marked(outgoing, lambda place: {PRODUCER_ID: producer_id, PRODUCER_SEQ: str(first + place)})


def _marked(outgoing: Outgoing, mark: Callable[[int], dict[str, str]]) -> Outgoing:
    if not outgoing.batch:
        return msgspec.structs.replace(outgoing, properties={**outgoing.properties, **mark(0)})
    if outgoing.parts:
        parts = tuple(
            msgspec.structs.replace(part, properties={**part.properties, **mark(place)})
            for place, part in enumerate(outgoing.parts)
        )
        return msgspec.structs.replace(outgoing, parts=parts, body=joined_body(parts))
    items = []
    for place, (flag, body, properties) in enumerate(iter_batch(outgoing.body)):
        whole = properties + b"\x02" + encode_properties(mark(place))
        check_properties(len(whole))
        items.append(BatchItem(flag, body, whole))
    return msgspec.structs.replace(outgoing, body=encode_batch(items))
