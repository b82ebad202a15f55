"""What RocketMQ 4.9.8's servers answered to mqadmin, answered again to our commands.

A request is looked up by its code and fields in the recording of the command, then in those of all commands. The
recorded addresses stand for the ports we listen on: `Replay.recorded` turns ours back.
"""

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, decode, reply
from support.scripted_broker import ScriptedBroker, scripted_broker

WIRE = Path(__file__).parents[1] / "golden" / "data" / "wire"
NAMESERVER, BROKER = "127.0.0.1:9876", "127.0.0.1:10911"
# Of a member's own: who asks and how long it waits says nothing about the answer.
_IGNORED = frozenset({"Signature", "AccessKey", "OnsChannel", "bname", "acceptStandardJsonOnly"})


class Recording:
    """The pairs of one or more recordings."""

    def __init__(self, paths: list[Path]) -> None:
        self.replies: dict[tuple[int, frozenset[tuple[str, str]]], Command] = {}
        self.by_code: dict[int, Command] = {}
        for path in paths:
            self._read(path)

    def _read(self, path: Path) -> None:
        asked: dict[tuple[str, int], Command] = {}
        for line in path.read_text().splitlines():
            frame = json.loads(line)
            if "frame_hex" not in frame:
                continue
            command = decode(bytes.fromhex(frame["frame_hex"]))
            key = (f"{frame['stream']} {frame['conn']}", command.opaque)
            if frame["dir"] == "request":
                asked[key] = command
            elif (request := asked.get(key)) is not None:
                self.replies.setdefault((request.code, _fields(request)), command)
                self.by_code.setdefault(request.code, command)

    def find(self, command: Command) -> Command | None:
        return self.replies.get((command.code, _fields(command))) or self.by_code.get(command.code)


def _fields(command: Command) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in command.ext.items() if name not in _IGNORED)


@cache
def all_recordings() -> Recording:
    return Recording(sorted(WIRE.glob("admin_*.jsonl")))


class Replay:
    """A name server and a broker that answer as recorded."""

    def __init__(self, name: str) -> None:
        self.own = Recording([WIRE / f"{name}.jsonl"])
        lines = (WIRE / f"{name}.txt").read_text().splitlines()
        self._command_line, self.lines = lines[0], lines[1:]
        self.nameserver = self.broker = ""

    def answer(self, command: Command) -> Command:
        found = self.own.find(command) or all_recordings().replies.get((command.code, _fields(command)))
        if found is None and command.code == RequestCode.GET_KV_CONFIG:
            return reply(command, ResponseCode.QUERY_NOT_FOUND, "No config item")
        found = found or all_recordings().by_code.get(command.code)
        if found is None:
            return reply(command, 1, f"request {command.code} was not recorded")
        ext = {name: self.ours(value) for name, value in found.ext.items()}
        return reply(command, found.code, found.remark, ext, self._ours_in(found.body))

    def _ours_in(self, body: bytes) -> bytes:
        for recorded, ours in ((BROKER, self.broker), (NAMESERVER, self.nameserver)):
            body = body.replace(recorded.encode(), ours.encode())
            # Stored messages carry the broker's address as eight bytes.
            body = body.replace(_host(recorded), _host(ours)) if recorded == BROKER else body
        return body

    def ours(self, text: str) -> str:
        for recorded, ours in ((BROKER, self.broker), (NAMESERVER, self.nameserver)):
            text = text.replace(recorded, ours)
        return text.replace(_host(BROKER).hex().upper(), _host(self.broker).hex().upper())

    def recorded(self, text: str) -> str:
        """Our output with the recorded addresses in place of ours."""
        for recorded, ours in ((BROKER, self.broker), (NAMESERVER, self.nameserver)):
            text = text.replace(ours, recorded)
        return text.replace(_host(self.broker).hex().upper(), _host(BROKER).hex().upper())

    @property
    def words(self) -> list[str]:
        """The recorded command line, with our addresses; words the recorder did not quote are joined again."""
        line = re.sub(r"\s+\(exit \d+\)$", "", self._command_line.removeprefix("$ mqadmin "))
        return shlex.split(self.ours(line))


def _host(address: str) -> bytes:
    host, _, port = address.partition(":")
    return bytes(map(int, host.split("."))) + int(port).to_bytes(4, "big")


@contextlib.contextmanager
def replaying(name: str) -> Iterator[Replay]:
    """The servers of one recording for as long as the block lasts."""
    replay = Replay(name)
    plays = {int(code): replay.answer for code in RequestCode}
    with scripted_broker(plays) as nameserver, scripted_broker(plays) as broker:
        replay.nameserver, replay.broker = nameserver.address, broker.address
        _same_length(nameserver, broker)
        yield replay


def _same_length(*brokers: ScriptedBroker) -> None:
    assert all(broker.address for broker in brokers)
