"""The real program started on a state, asked over its port: a share of the states is checked this way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crash_states.load import QUEUES
from crash_states.recording import Plan, start_program, write_conf
from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerProcess
from rocketeer.config.ports import free_ports
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.layout import StoredMessage
from support.senders import query_by_key, read_queue

ANSWER_S = 60.0


class Served:
    """A running broker; its time is the machine's, so what waits for long is not waited for."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def queues(self) -> list[tuple[str, int]]:
        return [
            (topic, queue_id)
            for topic in sorted(self._control.topics())
            for queue_id in range(QUEUES)
            if self._control.max_offset(topic, queue_id)
        ]

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        where = {"topic": topic, "queueId": str(queue_id)}
        first = int(self._control.ask(RequestCode.GET_MIN_OFFSET, where).ext["offset"])
        return first, self._control.max_offset(topic, queue_id)

    def messages(self, topic: str, queue_id: int) -> list[StoredMessage]:
        return read_queue(self._control, topic, queue_id, self.ends(topic, queue_id)[0])

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        where = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        reply = self._control.call(RequestCode.QUERY_CONSUMER_OFFSET, where)
        return int(reply.ext["offset"]) if reply.code == ResponseCode.SUCCESS else None

    def by_key(self, topic: str, key: str) -> list[StoredMessage]:
        return query_by_key(self._control, topic, key)

    async def ask(self, code: int, ext: dict[str, object], body: bytes = b"") -> Command:
        return self._control.call(code, {name: str(value) for name, value in ext.items()}, body)

    async def deliver(self, *, after_ms: int) -> bool:
        return False


def _start(store: Path, folder: Path, plan: Plan) -> tuple[ServerProcess, int]:
    _, port = free_ports()
    folder.mkdir(parents=True, exist_ok=True)
    conf = folder / "served.conf"
    write_conf(conf, store, port, plan)
    return start_program(conf, port, log=folder / "served.out", env={}), port


@asynccontextmanager
async def served(store: Path, folder: Path, plan: Plan) -> AsyncIterator[Served]:
    """`rocketeer broker` on the store; raises ServerFailed, with its last words, when it does not start."""
    process, port = await asyncio.to_thread(_start, store, folder, plan)
    try:
        with Control(f"127.0.0.1:{port}", timeout_s=ANSWER_S) as control:
            yield Served(control)
    finally:
        process.kill()
