"""Recorded conversations with RocketMQ 4.9.8, sent again to a broker that starts on the log they started on.

A recording leaves out repetitions, so some messages are only in the recorded log: `Conversation` sends those itself,
in their places. So every message must come to lie where it lay, and ids, offsets and records can be compared.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, encode, request
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import StoredMessage, decode_record
from rocketeer.record.properties import encode_properties
from support.cluster import ServerCluster
from support.raw_connection import RawConnection
from support.senders import send_header, wait_for

DATA = Path(__file__).parents[1] / "golden" / "data"
SEGMENT_BYTES = 1 << 20
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")

Frame = dict[str, Any]


def recorded_log() -> bytes:
    return (DATA / "store_full" / "commitlog" / f"{0:020}").read_bytes()


def records_of(log: bytes, at: int = 0) -> Iterator[StoredMessage]:
    """The records of a log file from `at` on; one that is being written has no magic yet."""
    while at + 8 <= len(log) and all(struct.unpack_from(">ii", log, at)):
        record = decode_record(log, at)
        yield record
        at += record.size


def place_log(store: Path, end: int) -> None:
    """Give a broker that has not started yet the recorded log up to `end`, its topics and groups."""
    log = store / "commitlog" / f"{0:020}"
    log.parent.mkdir(parents=True)
    log.write_bytes(recorded_log()[:end].ljust(SEGMENT_BYTES, b"\0"))
    config = store / "config"
    config.mkdir()
    for name in ("topics.json", "subscriptionGroup.json"):
        (config / name).write_bytes((DATA / "store_full" / "config" / name).read_bytes())
    delivered: dict[int, int] = {}  # what was delayed before counts as delivered
    for record in records_of(log.read_bytes()):
        if record.topic == "SCHEDULE_TOPIC_XXXX":
            delivered[record.queue_id + 1] = record.queue_offset + 1
    (config / "delayOffset.json").write_text(json.dumps({"offsetTable": delivered}))


def comparable(record: StoredMessage, shift: int = 0) -> dict[str, Any]:
    """Everything about a stored message but when and from where it came; offsets as in a log longer by `shift`."""
    properties = record.properties_dict()
    if "ORIGIN_MESSAGE_ID" in properties:
        properties["ORIGIN_MESSAGE_ID"] = str(parse_offset_msg_id(properties["ORIGIN_MESSAGE_ID"])[1])
    return {
        "log_offset": record.log_offset + shift,
        "topic": record.topic,
        "queue": (record.queue_id, record.queue_offset),
        "size": record.size,
        "flags": (record.flag, record.sys_flag),
        "born_ms": record.born_ms,
        "tries": record.reconsume_times,
        "prepared": record.prepared_offset,
        "crc": record.body_crc,
        "body": record.body,
        "properties": properties,
    }


def nameless(text: str | None) -> str | None:
    """A remark without the client's address."""
    return None if text is None else _ADDRESS.sub("<address>", text)


Check = Callable[[Frame, Command, Frame, int], None]


@dataclass
class Conversation:
    """Plays a recording to a broker, waiting for each answer where the recording has it."""

    cluster: ServerCluster
    scenario: str
    check: Check
    effects: dict[int, int] = field(default_factory=dict)
    """Where in the recorded log the message lies that a request (by opaque) makes, if its answer does not say so."""
    skip: frozenset[int] = frozenset()
    """Request codes that are somebody else's."""
    refused: dict[int, int] = field(default_factory=dict)
    """Opaque of a request that we refuse on purpose, and the size of the record that is then missing."""
    as_filler: frozenset[int] = frozenset()
    """Opaques of requests whose outcome is random: their message is put where it was."""
    with_fillers: bool = True
    shift: int = 0
    _on_its_way: int = -1

    def play(self) -> int:
        """How many answers were compared."""
        compared = 0
        lines: dict[int, RawConnection] = {}
        arrived: dict[tuple[int, int], Command] = {}

        def await_answer(key: tuple[int, int]) -> Command:
            while key not in arrived:
                came = lines[key[0]].reply()
                if came.is_response:
                    arrived[key[0], came.opaque] = came
            return arrived[key]

        frames = self._frames()
        answers = {(f["stream"], f["header"]["opaque"]): f for f in frames if f["dir"] == "response"}
        asked: dict[tuple[int, int], Frame] = {}
        try:
            for frame in frames:
                key = frame["stream"], frame["header"]["opaque"]
                if frame["dir"] == "response":
                    if key not in asked:
                        continue
                    self.check(asked[key], await_answer(key), frame, self.shift)
                    compared += 1
                    continue
                if frame["header"]["opaque"] in self.as_filler:
                    continue
                effect = self._effect(frame, answers.get(key))
                if effect is not None:
                    self._fill_up_to(effect)
                    self._on_its_way = effect
                if frame["stream"] not in lines:
                    port = self.cluster.broker_port - (2 if frame["port"] == 10909 else 0)
                    lines[frame["stream"]] = RawConnection(f"127.0.0.1:{port}")
                lines[frame["stream"]].send(bytes_of(frame))
                asked[key] = frame
                if frame["header"]["code"] == RequestCode.HEART_BEAT and key in answers:
                    await_answer(key)  # Apache's may serve a pull behind it first, in another thread
                self.shift += self.refused.get(frame["header"]["opaque"], 0)
        finally:
            for line in lines.values():
                line.socket.close()
        return compared

    def _frames(self) -> list[Frame]:
        frames = [json.loads(line) for line in (DATA / "wire" / f"{self.scenario}.jsonl").open()]
        return [
            frame
            for frame in frames
            if frame["conn"] == "client->broker"
            and frame.get("request_code", frame["header"]["code"]) not in self.skip
        ]

    def _effect(self, frame: Frame, answer: Frame | None) -> int | None:
        """Where the recorded broker put what this request made; None if it made nothing."""
        opaque = frame["header"]["opaque"]
        if opaque in self.effects:
            return self.effects[opaque]
        if answer is not None and "msgId" in (answer["header"].get("extFields") or {}):
            return parse_offset_msg_id(answer["header"]["extFields"]["msgId"].split(",")[0])[1]
        return None

    def log_end(self) -> int:
        """The end of our log, as a log longer by `shift`."""
        end = 0
        for record in records_of(self.log()):
            end = record.log_offset + record.size
        return end + self.shift

    def log(self) -> bytes:
        path = self.cluster.store / "commitlog" / f"{0:020}"
        return path.read_bytes() if path.exists() else b""

    def _fill_up_to(self, offset: int) -> None:
        """Send what lies before `offset` in the recorded log and not in ours; or wait, if the broker makes it."""
        while (end := self.log_end()) < offset:
            recorded = decode_record(recorded_log(), end) if self.with_fillers else None
            is_delivery = recorded is None or recorded.topic == recorded.properties_dict().get("REAL_TOPIC")
            if is_delivery or end == self._on_its_way:
                wait_for(lambda end=end: self.log_end() > end, what=f"the message at {end}")  # type: ignore[misc]
                continue
            assert recorded is not None
            with RawConnection(self.cluster.broker) as line:
                assert line.ask(filler(recorded)).code == 0
        assert end == offset, f"our log ends at {end}, the recorded one at {offset}"


def bytes_of(frame: Frame) -> bytes:
    """A recorded frame; of those that were cut, one of the same size."""
    if "frame_hex" in frame:
        return bytes.fromhex(frame["frame_hex"])
    ext = dict(frame["header"]["extFields"])
    if "...(" in ext["i"]:
        name, _, rest = ext["i"].partition("\x01")
        ext["i"] = f"{name}\x01".ljust(int(rest.split("...(")[1].split()[0]), "p")
    body = bytes(frame["body_len"]) if "body_len" in frame else bytes.fromhex(frame["body_hex"] or "")
    command = request(frame["header"]["code"], ext, body)
    command.opaque = frame["header"]["opaque"]
    return encode(command)


def filler(record: StoredMessage) -> Command:
    """A send that must be stored as `record` was."""
    properties = record.properties_dict()
    properties.pop("CLUSTER", None)
    topic = properties.pop("REAL_TOPIC", record.topic)
    queue_id = int(properties.pop("REAL_QID", record.queue_id))
    header = send_header(topic, queue_id, encode_properties(properties).decode()) | {
        "f": str(record.sys_flag),
        "g": str(record.born_ms),
        "h": str(record.flag),
    }
    return request(RequestCode.SEND_MESSAGE_V2, header, record.body)
