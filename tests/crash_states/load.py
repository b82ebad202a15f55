"""A seeded load of every kind of message, noted in the record: what is sent before it is sent, what was answered after.

Each message has a body that nobody else has, so whatever is read later tells which send it came from.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from crash_states.trace import Notes
from rocketeer.errors import RemotingError
from rocketeer.protocol.bodies.heartbeat import Heartbeat, encode_heartbeat
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import HEAD, PendingMessage, encode_pending
from rocketeer.remoting.client import RemotingClient

QUEUES: Final = 3
PLAIN, LATE, TX, ONCE, GONE, BACK = "Plain", "Late", "Tx", "Once", "Gone", "Back"
GROUP: Final = "CG"
PRODUCERS: Final = "PG"
ANSWER_S: Final = 30.0
AT: Final = "~"
"""In a name, before the log offset for which a body was forged."""
HOST: Final = encode_host("127.0.0.1", 10911)
COMMIT, ROLLBACK = 8, 12


def body_of(name: str, size: int) -> bytes:
    """`name`, then bytes that only this name gives; a third of the bodies end in zeros, as a torn page would."""
    dice = random.Random(name)
    if AT in name:
        return name.encode() + b" " + forged_records(name, size)
    filling = dice.randbytes(size)
    if dice.random() < 0.3:
        filling = filling[: size // 2].ljust(size, b"\0")
    return name.encode() + b" " + filling


def forged_records(name: str, size: int) -> bytes:
    """Whole records, valid in every field, that nobody stored: what a sender writes who knows our files.

    The name says where the sender expects its own record; each forged one says that it stands where it will then.
    """
    made, body_at = b"", int(name.split(AT)[1]) + HEAD.size + len(name) + 1
    for number in count():
        message = PendingMessage(
            PLAIN,
            number % QUEUES,
            0,
            0,
            1_700_000_000_000,
            HOST,
            b"forged %d" % number,
            b"UNIQ_KEY\x01forged",
        )
        record = encode_pending(
            message,
            queue_offset=number,
            log_offset=body_at + len(made),
            store_ms=1_700_000_000_000,
            store_host=HOST,
        )
        if len(made) + len(record) > size:
            return made.ljust(size, b"\0")
        made += record
    raise AssertionError("count() does not end")


def name_of(body: bytes) -> str:
    return body.split(b" ", 1)[0].decode("utf-8", "replace")


@dataclass
class Acked:
    """A plain message that can be sent back or committed."""

    topic: str
    queue_id: int
    queue_offset: int
    message_id: str

    @property
    def log_offset(self) -> int:
        return int(self.message_id[-16:], 16)


@dataclass
class Load:
    """Workers that send to one broker until `requests` were made or the connection is lost."""

    address: str
    notes: Notes
    seed: int
    requests: int
    first: int = 0
    """Number of the first request: numbers go on over restarts."""
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    acked: list[Acked] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = random.Random(f"load {self.seed} {self.first}")
        self._numbers = count(self.first)
        self._client = RemotingClient()
        self._left = self.requests

    async def run(self, workers: int = 6) -> None:
        try:
            # With a producer of its group at hand the broker asks after open transactions, and stores them again.
            body = encode_heartbeat(Heartbeat(f"client-{self.seed}", (PRODUCERS,)))
            await self._client.invoke(self.address, request(RequestCode.HEART_BEAT, {}, body), ANSWER_S)
            async with asyncio.TaskGroup() as group:
                for worker in range(workers):
                    group.create_task(self._work(worker))
        finally:
            self._client.close()

    @property
    def next_number(self) -> int:
        return self.first + self.requests * 4

    async def _work(self, worker: int) -> None:
        actions: list[tuple[int, Callable[[int], Awaitable[None]]]] = [
            (20, self._plain), (12, self._keyed), (6, self._ordered), (8, self._batch), (8, self._delayed),
            (8, self._timed), (10, self._transaction), (8, self._sequenced), (6, self._dedup), (8, self._send_back),
            (6, self._commit_offset), (4, self._gone), (1, self._delete_and_create), (6, self._forged),
        ]  # fmt: skip
        weights = [weight for weight, _ in actions]
        with contextlib.suppress(RemotingError):
            while self._left > 0:
                self._left -= 1
                (_, action), *_ = self._dice.choices(actions, weights)
                await action(worker)

    # --- one request -------------------------------------------------------------------------

    async def _ask(
        self, kind: str, code: int, ext: dict[str, Any], body: bytes = b"", **noted: Any
    ) -> Command | None:
        """The answer if it is a good one."""
        number = next(self._numbers)
        self.notes.sent(id=number, kind=kind, **noted)
        command = request(code, {name: str(value) for name, value in ext.items()}, body)
        answer = await self._client.invoke(self.address, command, ANSWER_S)
        good = answer.code == ResponseCode.SUCCESS
        if not good:
            self.refused[answer.code] = self.refused.get(answer.code, 0) + 1
        self.notes.answered(
            id=number, good=good, code=answer.code, ext={k: v for k, v in answer.ext.items() if len(v) < 2000}
        )
        return answer if good else None

    async def _send(
        self, kind: str, topic: str, queue_id: int, *, properties: dict[str, str] | None = None, sys_flag: int = 0,
        size: int | None = None, expected: int | None = None, **noted: Any,
    ) -> Command | None:  # fmt: skip
        name, body, size = self._body(kind, size, expected)
        text = self._properties(name, properties or {})
        header = _send_header(topic, queue_id, text, sys_flag)
        bodies = [[name, size]]
        return await self._ask(
            kind,
            RequestCode.SEND_MESSAGE_V2,
            header,
            body,
            topic=topic,
            queue=queue_id,
            bodies=bodies,
            **noted,
        )

    def _body(
        self, kind: str, size: int | None = None, expected: int | None = None
    ) -> tuple[str, bytes, int]:
        name = f"{kind}-{self.seed}-{self._dice.getrandbits(48):x}"
        if expected is not None:
            name += f"{AT}{expected}"
        if size is None:
            size = self._dice.choice((0, 40, 100, 300, 300, 500, 900, 3_000, 5_000))
        return name, body_of(name, size), size

    @staticmethod
    def _properties(name: str, properties: dict[str, str]) -> str:
        named = {"UNIQ_KEY": f"U{name}", "WAIT": "true", **properties}
        return "".join(f"{key}\x01{value}\x02" for key, value in named.items())

    # --- the kinds ---------------------------------------------------------------------------

    def _queue(self) -> int:
        return self._dice.randrange(QUEUES)

    async def _plain(self, worker: int) -> None:
        self._note_acked(PLAIN, await self._send("plain", PLAIN, self._queue()))

    async def _keyed(self, worker: int) -> None:
        key = f"key{self._dice.getrandbits(40):x}"
        properties = {"TAGS": self._dice.choice("ABC"), "KEYS": key}
        self._note_acked(
            PLAIN, await self._send("keyed", PLAIN, self._queue(), properties=properties, key=key)
        )

    async def _ordered(self, worker: int) -> None:
        await self._send("ordered", PLAIN, worker % QUEUES, properties={"__SHARDINGKEY": str(worker)})

    async def _forged(self, worker: int) -> None:
        """A body full of records; the sender asks where the log ends, and hopes that nobody is quicker."""
        info = await self._client.invoke(
            self.address, request(RequestCode.GET_BROKER_RUNTIME_INFO, {}), ANSWER_S
        )
        end = int(decode_kv_table(info.body)["commitLogMaxOffset"])
        await self._send("forged", PLAIN, self._queue(), size=self._dice.choice((600, 3_000)), expected=end)

    async def _batch(self, worker: int) -> None:
        queue_id = self._queue()
        made = [
            self._body("batch", self._dice.choice((10, 80, 400))) for _ in range(self._dice.randint(2, 6))
        ]
        items = [BatchItem(0, body, self._properties(name, {}).encode()) for name, body, _ in made]
        await self._ask(
            "batch", RequestCode.SEND_BATCH_MESSAGE, _send_header(PLAIN, queue_id, "", 0) | {"m": "true"},
            encode_batch(items), topic=PLAIN, queue=queue_id, bodies=[[name, size] for name, _, size in made],
        )  # fmt: skip

    async def _delayed(self, worker: int) -> None:
        level = self._dice.choice((1, 1, 2, 3))
        await self._send("delayed", LATE, self._queue(), properties={"DELAY": str(level)})

    async def _timed(self, worker: int) -> None:
        """Some are taken back again before they are due."""
        wait_ms = self._dice.choice((50, 200, 500, 1_000, 600_000, 600_000))
        answer = await self._send("timed", LATE, self._queue(), properties={"TIMER_DELAY_MS": str(wait_ms)})
        if answer is not None and wait_ms >= 1_000 and self._dice.random() < 0.5:
            handle = answer.ext["recallHandle"]
            await self._ask(
                "recall",
                RequestCode.RECALL_MESSAGE,
                {"producerGroup": PRODUCERS, "topic": LATE, "recallHandle": handle},
                message=answer.ext["msgId"],
            )

    async def _transaction(self, worker: int) -> None:
        properties = {"TRAN_MSG": "true", "PGROUP": PRODUCERS}
        half = await self._send("half", TX, self._queue(), properties=properties, sys_flag=4)
        verdict = self._dice.choice((COMMIT, COMMIT, COMMIT, ROLLBACK, 0))
        if half is None or not verdict:
            return
        header = {
            "producerGroup": PRODUCERS, "tranStateTableOffset": half.ext["queueOffset"],
            "commitLogOffset": int(half.ext["msgId"][-16:], 16), "commitOrRollback": verdict,
        }  # fmt: skip
        await self._ask("end", RequestCode.END_TRANSACTION, header, half=half.ext["msgId"], verdict=verdict)

    async def _sequenced(self, worker: int) -> None:
        """Numbered; sent again at times, as after a lost answer."""
        key = (f"P{self.seed}-{worker}", worker % QUEUES)
        sequence = self.sequences.setdefault(key, 0)
        mark = {"PRODUCER_ID": key[0], "PRODUCER_SEQ": str(sequence)}
        self.sequences[key] += 1
        await self._idempotent("sequenced", key[1], mark)

    async def _dedup(self, worker: int) -> None:
        mark = {"PRODUCER_ID": f"D{self.seed}", "DEDUP_ID": f"d{self._dice.getrandbits(40):x}"}
        await self._idempotent("dedup", self._queue(), mark)

    async def _idempotent(self, kind: str, queue_id: int, mark: dict[str, str]) -> None:
        name, body, size = self._body(kind)
        header = _send_header(ONCE, queue_id, self._properties(name, mark), 0)
        for _ in range(self._dice.choice((1, 1, 2))):
            await self._ask(
                kind, RequestCode.SEND_MESSAGE_V2, header, body, topic=ONCE, queue=queue_id, bodies=[[name, size]],
                properties=header["i"],
            )  # fmt: skip

    async def _send_back(self, worker: int) -> None:
        if not self.acked:
            return
        message = self._dice.choice(self.acked[-30:])
        self.acked.remove(message)
        level = self._dice.choice((1, 3))
        header = {
            "offset": message.log_offset, "group": GROUP, "delayLevel": level,
            "originMsgId": message.message_id, "originTopic": message.topic, "unitMode": "false",
            "maxReconsumeTimes": 16,
        }  # fmt: skip
        await self._ask(
            "back",
            RequestCode.CONSUMER_SEND_MSG_BACK,
            header,
            message=message.message_id,
            topic=message.topic,
        )

    async def _commit_offset(self, worker: int) -> None:
        if not self.acked:
            return
        message = self.acked[-1]
        offset = message.queue_offset + 1
        header = {
            "consumerGroup": GROUP, "topic": message.topic, "queueId": message.queue_id, "commitOffset": offset,
        }  # fmt: skip
        await self._ask(
            "offset", RequestCode.UPDATE_CONSUMER_OFFSET, header,
            topic=message.topic, queue=message.queue_id, offset=offset,
        )  # fmt: skip

    async def _gone(self, worker: int) -> None:
        await self._send("gone", GONE, self._queue())

    async def _delete_and_create(self, worker: int) -> None:
        await self._ask("delete", RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": GONE}, topic=GONE)
        await self.create_topic(GONE)

    async def create_topic(self, topic: str) -> None:
        header = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }  # fmt: skip
        await self._ask("create", RequestCode.UPDATE_AND_CREATE_TOPIC, header, topic=topic)

    def _note_acked(self, topic: str, answer: Command | None) -> None:
        if answer is not None:
            ext = answer.ext
            self.acked.append(Acked(topic, int(ext["queueId"]), int(ext["queueOffset"]), ext["msgId"]))


def _send_header(topic: str, queue_id: int, properties: str, sys_flag: int) -> dict[str, Any]:
    return {
        "a": PRODUCERS, "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": sys_flag, "g": 1_700_000_000_000,
        "h": 0, "i": properties, "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
