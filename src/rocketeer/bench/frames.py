"""Requests made from one template each: the load generator's cost per message is one copy and a few digits.

Everything that varies has a fixed width, so the lengths in the template hold: the number of the message (which is
its opaque, and part of its KEYS and UNIQ_KEY, so that no two messages share an index entry), the topic and the queue.
"""

import itertools
import re
from dataclasses import dataclass
from typing import Final

from rocketeer.bench.steps import NUMBER_WIDTH, STAMP_WIDTH, Frames
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.frame import JSON, PREFIX, pack_frame
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.security.credentials import Credentials
from rocketeer.security.signature import ACCESS_KEY, SIGNATURE

# Numbers start here: ten digits whatever comes, and an opaque that still fits a signed 32-bit integer.
FIRST_NUMBER: Final = 1_000_000_000
PER_BATCH: Final = 32
PER_PULL: Final = 32

_HEADER = (
    '{"code":%d,"language":"JAVA","version":399,"opaque":%s,"flag":0,'
    '"serializeTypeCurrentRPC":"JSON","extFields":{%s}}'
)
_NUMBER = "N" * NUMBER_WIDTH
_STAMP = "S" * STAMP_WIDTH  # nanoseconds in front of a body, for the end-to-end mode
_SIGNATURE = "X" * 28
_BORN_MS = 1_700_000_000_000  # a constant: brokers store it and compute nothing from it


@dataclass(frozen=True)
class SendTarget:
    """Where messages go: `topics` names of equal width, each with queues 0 .. queues - 1."""

    topics: tuple[str, ...]
    queues: int

    def __post_init__(self) -> None:
        assert 1 <= self.queues <= 10, "a queue id is one digit"
        assert len({len(topic) for topic in self.topics}) == 1, "the lengths in a template are fixed"

    def of(self, number: int) -> tuple[str, int]:
        """The topic and the queue of a message: every queue of every topic in turn."""
        turn, queue = divmod(number, self.queues)
        return self.topics[turn % len(self.topics)], queue


def message_key(run: int, connection: int, number: int, item: int | None = None) -> str:
    """The KEYS of a message; `item` counts within a batch."""
    tail = f"{number:010d}" if item is None else f"{item:02d}{number:010d}"
    return f"k{run:06x}{connection:04x}{tail}"


def _properties(run: int, connection: int, item: int | None) -> str:
    tail = _NUMBER if item is None else f"{item:02d}{_NUMBER}"
    key = f"k{run:06x}{connection:04x}{tail}"
    uniq = f"7F000001{run:06X}{connection:04X}{tail:0>14}"
    return f"KEYS\x01{key}\x02UNIQ_KEY\x01{uniq}\x02WAIT\x01true\x02TAGS\x01TagA\x02"


def _escaped(text: str) -> str:
    return text.replace("\x01", "\\u0001").replace("\x02", "\\u0002")


class Requests:
    """The sends (or batches) of one connection."""

    def __init__(
        self,
        *,
        run: int,
        connection: int,
        target: SendTarget,
        body_bytes: int,
        batch: bool = False,
        stamped: bool = False,
        account: Credentials | None = None,
    ) -> None:
        """With an `account` every request is signed, as RocketMQ's clients do it."""
        assert not (batch and stamped), "the end-to-end mode sends single messages"
        self._run = run
        self._connection = connection
        self._batch = batch
        body = bytes(ord("a") + i * 7 % 26 for i in range(body_bytes))
        if stamped:
            body = _STAMP.encode() + body[STAMP_WIDTH:]
        fields = {
            "a": "rocketeer-bench",
            "b": "T" * len(target.topics[0]),
            "c": "TBW102",
            "d": str(target.queues),
            "e": "Q",
            "f": "0",
            "g": str(_BORN_MS),
            "h": "0",
            "i": "" if batch else _properties(run, connection, None),
            "j": "0",
            "k": "false",
            "l": "0",
            "m": "true" if batch else "false",
        }
        if account is not None:
            fields = {ACCESS_KEY: account.access_key, SIGNATURE: _SIGNATURE, **fields}
        ext = ",".join(f'"{name}":"{_escaped(value)}"' for name, value in fields.items())
        code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
        header = (_HEADER % (code, _NUMBER, ext)).encode()
        content = body
        if batch:
            properties = [_properties(run, connection, item).encode() for item in range(PER_BATCH)]
            content = encode_batch([BatchItem(0, body, each) for each in properties])
        frame = pack_frame(JSON, header, content)
        topic_at = frame.index(f'"b":"{fields["b"]}"'.encode()) + 5
        queue_at = frame.index(b'"e":"Q"') + 5
        places = [
            (topic.encode(), b"%d" % queue) for topic in target.topics for queue in range(target.queues)
        ]
        self._frames = _frames_of(frame, topic_at, queue_at, places)
        if account is not None:
            signed = [name for name in sorted(fields) if name != SIGNATURE]
            ends = dict(zip(signed, itertools.accumulate(len(fields[name]) for name in signed), strict=True))
            signed_bytes = "".join([fields[name] for name in signed]).encode() + content
            self._frames.sign(
                _frames_of(signed_bytes, ends["b"] - len(fields["b"]), ends["e"] - 1, places),
                account.secret_key.encode(),
                frame.index(_SIGNATURE.encode()),
            )

    def key(self, number: int) -> str:
        """The KEYS of message `number` (of the last message, in a batch)."""
        return message_key(self._run, self._connection, number, PER_BATCH - 1 if self._batch else None)

    def make(self, first: int, due_ns: list[int]) -> bytes:
        """A request for every due time, numbered from `first`; its number is its opaque."""
        return self._frames.make(first, due_ns)


def _frames_of(template: bytes, topic_at: int, queue_at: int, places: list[tuple[bytes, bytes]]) -> Frames:
    numbers_at = [found.start() for found in re.finditer(_NUMBER.encode(), template)]
    return Frames(template, numbers_at, topic_at, queue_at, template.find(_STAMP.encode()), places)


class PullRequests:
    """Pulls of up to 32 messages from one topic; with `hold_ms` the broker may keep one until a message comes.

    Without a `subscription` the group's heartbeat says which messages are wanted.
    """

    def __init__(
        self,
        topic: str,
        *,
        hold_ms: int = 0,
        group: str = "rocketeer-bench",
        subscription: str | None = "*",
        kind: str = "TAG",
    ) -> None:
        # 4: the subscription is in the request; 2: may be held
        flags = (2 if hold_ms else 0) | (4 if subscription is not None else 0)
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": "QUEUE",
            "queueOffset": "OFFSET",
            "maxMsgNums": str(PER_PULL),
            "sysFlag": str(flags),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(hold_ms or 1000),
            "subscription": subscription or "",
            "subVersion": "0",
            "expressionType": kind,
        }
        ext = ",".join(f'"{name}":"{value}"' for name, value in fields.items())
        header = _HEADER % (RequestCode.PULL_MESSAGE, "OPAQUE", ext)
        self._template = re.sub("OPAQUE|QUEUE|OFFSET", "%d", header.replace("%", "%%")).encode()

    def one(self, opaque: int, queue: int, offset: int) -> bytes:
        """The frame of one pull."""
        header = self._template % (opaque, queue, offset)
        return PREFIX.pack(4 + len(header), len(header)) + header
