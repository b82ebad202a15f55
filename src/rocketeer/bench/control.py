"""Calls a benchmark or a test makes beside the load: one blocking connection, one command at a time."""

import json
import socket
from types import TracebackType
from typing import Self

from rocketeer.errors import CallTimeout, ConnectFailed, ConnectionLost, RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, decode_frame, encode, request
from rocketeer.protocol.frame import FrameSplitter

_RECV_BYTES = 1 << 16


def split_address(address: str) -> tuple[str, int]:
    """`host:port` as the two things a socket wants."""
    host, _, port = address.rpartition(":")
    return host or "127.0.0.1", int(port)


class Control:
    """A connection for questions about a broker or a name server."""

    def __init__(self, address: str, *, timeout_s: float = 10) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._splitter = FrameSplitter()
        try:
            self._socket = socket.create_connection(split_address(address), timeout_s)
        except OSError as why:
            raise ConnectFailed(address, str(why)) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def call(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Ask and wait for the reply with the same opaque, whatever its code."""
        asked = request(code, ext, body)
        try:
            self._socket.sendall(encode(asked))
            while True:
                data = self._socket.recv(_RECV_BYTES)
                if not data:
                    raise ConnectionLost(self.address)
                for frame in self._splitter.feed(data):
                    reply = decode_frame(*frame)
                    if reply.is_response and reply.opaque == asked.opaque:
                        return reply
        except TimeoutError:
            raise CallTimeout(self.address, code, self._timeout_s) from None
        except OSError as why:
            raise ConnectionLost(self.address, str(why)) from None

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Ask; a reply that is not SUCCESS is an error."""
        reply = self.call(code, ext, body)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(
                reply.code, f"{self.address} answered {reply.code} to {code}: {reply.remark}"
            )
        return reply

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Where the queue ends; 0 for a queue nobody has written to."""
        reply = self.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
        return int(reply.ext["offset"])

    def has_key(self, topic: str, key: str) -> bool:
        """Whether the index knows a message of this topic by this key."""
        header = {
            "topic": topic,
            "key": key,
            "maxNum": "1",
            "beginTimestamp": "0",
            "endTimestamp": str((1 << 63) - 1),
        }
        return self.call(RequestCode.QUERY_MESSAGE, header).code == ResponseCode.SUCCESS

    def create_topic(self, topic: str, *, queues: int) -> None:
        """UPDATE_AND_CREATE_TOPIC: `queues` to write to, as many to read from."""
        self.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": str(queues),
                "writeQueueNums": str(queues),
                "perm": "6",
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0",
                "order": "false",
            },
        )

    def topics(self) -> set[str]:
        """The topics the broker has (GET_ALL_TOPIC_CONFIG)."""
        return set(json.loads(self.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"])
