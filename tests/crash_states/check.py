"""Compares what a broker has after a power failure with what was promised before it."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from crash_states.ledger import Ledger, Place, Request
from crash_states.load import COMMIT, GONE, GROUP, LATE, ONCE, PLAIN, PRODUCERS, QUEUES, ROLLBACK, TX, name_of
from crash_states.recording import SEGMENT_BYTES
from crash_states.states import SECTOR, Damage
from rocketeer.errors import BadRecord, RocketeerError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.layout import StoredMessage
from rocketeer.store.queue_entry import ENTRY_BYTES

RETRY: Final = f"%RETRY%{GROUP}"
TOPICS: Final = (PLAIN, LATE, TX, ONCE, GONE, RETRY)
ASKED_MAX: Final = 6
WAIT_MS: Final = 30 * 60_000
"""Longer than any message of the load waits."""


class Recovered(Protocol):
    """A broker that has been started on a state: in this process, or the real program."""

    def queues(self) -> list[tuple[str, int]]: ...

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first queue offset, and the one behind the last."""
        ...

    def messages(self, topic: str, queue_id: int) -> list[StoredMessage]: ...

    def committed(self, group: str, topic: str, queue_id: int) -> int | None: ...

    def by_key(self, topic: str, key: str) -> list[StoredMessage]: ...

    async def ask(self, code: int, ext: dict[str, object], body: bytes = b"") -> Command: ...

    async def deliver(self, *, after_ms: int) -> bool:
        """Let time pass and deliver what is due then; False if this broker's time cannot be moved."""
        ...


class Broken(NamedTuple):
    """A promise that was not kept: which, for what kind of message, and the details."""

    promise: str
    kind: str
    text: str
    name: str = ""
    """Of the message."""

    def __str__(self) -> str:
        return f"{self.promise} [{self.kind}] {self.text}"


class Checker:
    """One recovered broker against one ledger. `promised`: SYNC_FLUSH, so what was answered must be there."""

    def __init__(
        self,
        broker: Recovered,
        ledger: Ledger,
        *,
        promised: bool,
        seed: int,
        damage: Damage | None = None,
    ) -> None:
        self._broker = broker
        self._ledger = ledger
        self._promised = promised
        self._dice = random.Random(f"check {seed}")
        self.broken: list[Broken] = []
        self.checked: Counter[str] = Counter()
        """Acknowledged things that were looked for, by kind."""
        self._queues: dict[tuple[str, int], list[StoredMessage]] = {}
        self._seen: dict[str, Counter[str]] = {}
        self._stored = ledger.stored()
        self._damaged = "" if damage is None else damage.path.partition("/")[0]
        self._spared = self._in_damaged_part(damage)
        """Names of messages that a flipped bit may cost."""
        self._expired = {
            (each.topic, each.name) for each in self._stored.values() if each.log_offset < ledger.log_floor
        }

    async def run(self) -> list[Broken]:
        self._read()
        self._offsets()
        if not self._spared:
            self._prefix()
        delivered = await self._broker.deliver(after_ms=WAIT_MS)
        self._read()
        self._whole()
        if self._promised:
            self._in_place()
            if delivered:
                self._once(LATE, "delayed", "timed")
                self._sent_back()
                self._recalled()
            self._topic_deleted()
            await self._resends()
            self._keys()
        await self._transactions()
        return [each for each in self.broken if not self._is_spared(each)]

    def _in_damaged_part(self, damage: Damage | None) -> set[str]:
        """What a flipped bit in the log may cost: its record, and what is behind it in the file.

        Where its record has a sector of zeros, all behind it: then it looks like one that was not yet synced. In a
        queue of the broker's own (delay levels, half messages) the message of the entry it is in.
        """
        if damage is None:
            return set()
        if damage.path.startswith("consumequeue/"):
            _, topic, queue_id, file_name = damage.path.split("/")
            place = (topic, int(queue_id), (int(file_name) + damage.at) // ENTRY_BYTES)
            return {
                each.name
                for each in self._stored.values()
                if topic not in TOPICS and (each.topic, each.queue_id, each.queue_offset) == place
            }
        if not damage.path.startswith("commitlog/"):
            return set()
        base = int(damage.path.rpartition("/")[2])
        end = base + SEGMENT_BYTES
        for each in self._stored.values():
            is_hit = each.log_offset <= base + damage.at < each.log_offset + each.size
            if is_hit and bytes(SECTOR) in self._ledger.bodies.get(each.name, b""):
                end = max(self._stored) + 1
        spared = {
            each.name
            for each in self._stored.values()
            if base + damage.at < each.log_offset + each.size and each.log_offset < end
        }
        return spared or {"nothing"}

    def _is_spared(self, broken: Broken) -> bool:
        if self._damaged in ("index", "checkpoint") and broken.promise == "key not found":
            return True  # RocketMQ's index has no checksums, nor have the times that say how far it is filled
        if not self._spared:
            return False
        # Without names: a gap in a queue, and the notes that a transaction has ended, that a topic was deleted, that
        # a timed message was taken back.
        notes = ("not dense", "deleted returned", "recalled returned")
        nameless = broken.promise in notes or broken.kind == "half"
        return nameless or broken.name in self._spared

    def _some(self, places: list[Place]) -> list[Place]:
        """A few of them, by the state's seed: asking a broker takes its time, and there are many states."""
        return places if len(places) <= ASKED_MAX else self._dice.sample(places, ASKED_MAX)

    def _say(self, promise: str, kind: str, text: str, name: str = "") -> None:
        self.broken.append(Broken(promise, kind, text, name))

    # --- reading -----------------------------------------------------------------------------

    def _read(self) -> None:
        self._queues.clear()
        for topic, queue_id in self._broker.queues():
            if topic in TOPICS:
                try:
                    self._queues[topic, queue_id] = self._broker.messages(topic, queue_id)
                except (BadRecord, AssertionError) as error:
                    self._queues[topic, queue_id] = []
                    self._say("unreadable", topic, f"{topic}:{queue_id}: {error}")
        self._seen = {topic: Counter() for topic in TOPICS}
        for (topic, _), messages in self._queues.items():
            self._seen[topic].update(name_of(each.body) for each in messages)

    def _all(self) -> Iterable[tuple[str, int, StoredMessage]]:
        for (topic, queue_id), messages in self._queues.items():
            for message in messages:
                yield topic, queue_id, message

    # --- always ------------------------------------------------------------------------------

    def _whole(self) -> None:
        """Nothing invented, nothing twice, every queue dense and in the order of the log."""
        for (topic, queue_id), messages in self._queues.items():
            low, _ = self._broker.ends(topic, queue_id)
            offsets = [each.queue_offset for each in messages]
            if offsets != list(range(low, low + len(messages))):
                self._say("not dense", topic, f"{topic}:{queue_id} from {low}: {offsets[:8]} ...")
            places = [each.log_offset for each in messages]
            if places != sorted(set(places)):
                self._say("not in order", topic, f"{topic}:{queue_id}")
        for topic, queue_id, message in self._all():
            name = name_of(message.body)
            kind = name.partition("-")[0]
            if name not in self._ledger.sent_names or message.body != self._ledger.bodies[name]:
                self._say(
                    "invented", topic, f"{topic}:{queue_id}@{message.queue_offset} {message.body[:40]!r}"
                )
            elif message.topic != topic or message.queue_id != queue_id:
                self._say(
                    "misplaced",
                    kind,
                    f"{name} of {message.topic}:{message.queue_id} in {topic}:{queue_id}",
                    name,  # a bit of the topic in its record may be the flipped one: the checksum covers the body alone
                )
        for topic, counts in self._seen.items():
            for name, times in counts.items():
                if times > 1:
                    self._say("twice", name.partition("-")[0], f"{name} {times} times in {topic}", name)

    def _offsets(self) -> None:
        """A group must not skip messages that will come."""
        for queue_id in range(QUEUES):
            committed = self._broker.committed(GROUP, PLAIN, queue_id)
            self.checked["offset"] += committed is not None
            _, end = self._broker.ends(PLAIN, queue_id)
            if committed is not None and committed > end:
                self._say(
                    "offset beyond log", "offset", f"{PLAIN}:{queue_id} committed {committed}, end {end}"
                )

    def _prefix(self) -> None:
        """What is there of the log is there from its beginning: no message is missing before one that is there."""
        there = {
            (topic, name_of(message.body))
            for topic, _, message in self._all()
            if message.log_offset in self._stored
        }
        newest = max((each.log_offset for _, _, each in self._all() if self._is_known(each)), default=-1)
        for each in self._stored.values():
            if (
                each.topic in TOPICS
                and each.topic != GONE
                and self._ledger.log_floor <= each.log_offset < newest
                and (each.topic, each.name) not in there
            ):
                self._say(
                    "hole in log", each.name.partition("-")[0], f"{each.name} at {each.log_offset} < {newest}"
                )

    def _is_known(self, message: StoredMessage) -> bool:
        known = self._stored.get(message.log_offset)
        return known is not None and known.name == name_of(message.body)

    # --- what SYNC_FLUSH promises ------------------------------------------------------------

    def _in_place(self) -> None:
        for place in self._ledger.places("plain", "keyed", "ordered", "batch", "forged"):
            if place.log_offset < self._ledger.log_floor:
                continue
            self.checked[place.request.kind] += 1
            there = self._at(PLAIN, place.queue_id, place.queue_offset)
            if there is None or name_of(there.body) != place.name or there.log_offset != place.log_offset:
                where = f"{PLAIN}:{place.queue_id}@{place.queue_offset} log {place.log_offset}"
                self._say("lost", place.request.kind, f"{place.name} {where}", place.name)

    def _at(self, topic: str, queue_id: int, queue_offset: int) -> StoredMessage | None:
        messages = self._queues.get((topic, queue_id), [])
        return next((each for each in messages if each.queue_offset == queue_offset), None)

    def _once(self, topic: str, *kinds: str) -> None:
        """Each is there, whatever ways it has gone, unless somebody wanted it back."""
        recalled = {each.fields["message"] for each in self._ledger.of("recall")}
        for request in self._ledger.of(*kinds):
            if self._ledger.is_answered(request) and request.answer["msgId"] not in recalled:
                self.checked[request.kind] += len(request.names)
                for name in request.names:
                    if not self._seen[topic][name] and (topic, name) not in self._expired:
                        self._say("lost", request.kind, name, name)

    def _sent_back(self) -> None:
        names = {f"{place.log_offset}": place.name for place in self._ledger.places("plain", "keyed")}
        for request in self._ledger.of("back"):
            name = names[str(int(request.fields["message"][-16:], 16))]
            if not self._ledger.is_answered(request) or (RETRY, name) in self._expired:
                continue
            self.checked["back"] += 1
            if not self._seen[RETRY][name]:
                self._say("lost", "back", f"{name} in {RETRY}", name)

    def _recalled(self) -> None:
        names = {place.request.answer["msgId"]: place.name for place in self._ledger.places("timed")}
        for request in self._ledger.of("recall"):
            if self._ledger.is_answered(request):
                name = names[request.fields["message"]]
                self.checked["recall"] += 1
                if self._seen[LATE][name]:
                    self._say("recalled returned", "recall", name, name)

    def _topic_deleted(self) -> None:
        for request in self._ledger.of("gone"):
            (name,) = request.names
            there = self._seen[GONE][name]
            must_be_gone, must_be_there = (
                self._ledger.must_be_gone(request),
                self._ledger.must_be_there(request),
            )
            self.checked["gone"] += must_be_gone or must_be_there
            if must_be_gone and there:
                self._say("deleted returned", "gone", name, name)
            if must_be_there and not there and (GONE, name) not in self._expired:
                self._say("lost", "gone", name, name)

    async def _resends(self) -> None:
        """An idempotent message that was acknowledged is there, and sent again it is not stored again."""
        self._once(ONCE, "sequenced", "dedup")
        there = [
            place
            for place in self._ledger.places("sequenced", "dedup")
            if place.log_offset >= self._ledger.log_floor and self._seen[ONCE][place.name]
        ]
        await asyncio.gather(*[self._resend(place) for place in self._some(there)])

    async def _resend(self, place: Place) -> None:
        header = _send_again(place.request.fields)
        body = self._ledger.bodies[place.name]
        answer = await self._broker.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        good = answer.code == ResponseCode.SUCCESS
        same = good and int(answer.ext["queueOffset"]) == place.queue_offset
        # Behind damage it may no longer be known where it is; refusing it is safe, storing it again is not.
        if not same and not (self._spared and not good):
            what = f"{place.name} was at {place.queue_offset}: {answer.code} {answer.remark or answer.ext}"
            self._say("stored again", place.request.kind, what, place.name)

    def _keys(self) -> None:
        for place in self._some(self._ledger.places("keyed")):
            if place.log_offset < self._ledger.log_floor:
                continue
            found = self._broker.by_key(PLAIN, place.request.fields["key"])
            if [name_of(each.body) for each in found] != [place.name]:
                self._say("key not found", "keyed", f"{place.name}: {len(found)} found", place.name)

    # --- transactions ------------------------------------------------------------------------

    async def _transactions(self) -> None:
        ended = {each.fields["half"]: each for each in self._ledger.of("end")}
        open_ends = []
        for place in self._ledger.places("half"):
            verdict = ended.get(place.request.answer["msgId"])
            shown = self._seen[TX][place.name]
            if (TX, place.name) in self._expired:
                continue
            wanted = verdict.fields["verdict"] if verdict is not None else 0
            over = verdict is not None and self._ledger.is_answered(verdict)
            self.checked["half"] += 1
            if shown and wanted != COMMIT:
                self._say("invented", "half", f"{place.name} delivered, verdict {wanted}")
            elif self._promised and over and wanted == COMMIT and not shown:
                self._say("lost", "half", f"{place.name} committed and not delivered")
            else:
                open_ends.append(place)
        if self._promised:
            some = self._some(open_ends)
            await asyncio.gather(
                *[
                    self._half(
                        each.log_offset, each.queue_offset, each.name, ended.get(each.request.answer["msgId"])
                    )
                    for each in some
                ]
            )

    async def _half(self, log_offset: int, queue_offset: int, name: str, verdict: Request | None) -> None:
        """Only a transaction that is open can be ended."""
        shown = self._seen[TX][name]
        over = verdict is not None and self._ledger.is_answered(verdict)
        if log_offset < self._ledger.log_floor:
            return  # it was appended again elsewhere; its producer would be asked
        header: dict[str, Any] = {
            "producerGroup": PRODUCERS, "tranStateTableOffset": queue_offset, "commitLogOffset": log_offset,
            "commitOrRollback": ROLLBACK if shown else COMMIT,
        }  # fmt: skip
        try:
            answer = await self._broker.ask(RequestCode.END_TRANSACTION, header)
            taken = answer.code == ResponseCode.SUCCESS
            why = answer.remark
        except RocketeerError as error:
            taken, why = False, str(error)
        if over and taken:
            self._say("ended again", "half", f"{name}: an end was taken for a transaction that had ended")
        if verdict is None and not taken:
            self._say("lost", "half", f"{name} is not pending: {why}")
        if (
            verdict is not None
            and not over
            and not shown
            and not taken
            and verdict.fields["verdict"] == COMMIT
        ):
            self._say("lost", "half", f"{name} neither delivered nor pending: {why}")


def _send_again(fields: dict[str, Any]) -> dict[str, object]:
    return {
        "a": PRODUCERS, "b": fields["topic"], "c": "TBW102", "d": 4, "e": fields["queue"], "f": 0,
        "g": 1_700_000_000_000, "h": 0, "i": fields["properties"], "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
