"""The broker's own recovery on a state, in this process: everything a start does but listening."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from rocketeer.broker.assemble import Broker
from rocketeer.broker.lifecycle import Components, Lifecycle
from rocketeer.config import ServerRole, Settings, read_config
from rocketeer.protocol.command import Command, request
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import StoredMessage
from rocketeer.remoting.connection import Connection
from rocketeer.store.message_store import MessageStore, RecoveryReport
from support.clock import ManualClock
from support.records import split_records
from support.stores import query

DELIVER_TURNS_MAX = 200
ANSWER_S = 20.0
DELIVERS = ("deliver delayed messages", "deliver timed messages")


class Peer:
    """A connection as a handler sees it; its answers are kept."""

    remote = "127.0.0.1:50000"
    remote_host = encode_host("127.0.0.1", 50_000)
    closed = False
    unread_bytes = 0

    def __init__(self) -> None:
        self.answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

    def send(self, command: Command) -> None:
        if not self.answer.done():
            self.answer.set_result(command)


class Opened:
    """A recovered broker that nobody talks to but us, with a clock that we own."""

    def __init__(self, components: Components, report: RecoveryReport, clock: ManualClock) -> None:
        self._components = components
        self.report = report
        self._clock = clock
        self.store: MessageStore = components.state.store
        self._handlers = {
            code: handler for feature in components.features for code, handler in feature.handlers.items()
        }

    async def ask(self, code: int, ext: dict[str, object], body: bytes = b"") -> Command:
        """The answer of the handler, which may come when the disk has what it says."""
        peer = Peer()
        command = request(code, {name: str(value) for name, value in ext.items()}, body)
        outcome = self._handlers[code](command, cast(Connection, peer))
        if isinstance(outcome, Command):
            return outcome
        if outcome is not None:
            return await outcome
        return await asyncio.wait_for(peer.answer, ANSWER_S)

    def queues(self) -> list[tuple[str, int]]:
        return self.store.queues()

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self.store.min_queue_offset(topic, queue_id), self.store.max_queue_offset(topic, queue_id)

    def by_key(self, topic: str, key: str) -> list[StoredMessage]:
        return list(query(self.store, topic, key, 0, 1 << 62, 32).messages)

    async def deliver(self, *, after_ms: int) -> bool:
        """Let time pass and deliver what is due then."""
        self._clock.advance(ms=after_ms)
        services = [
            each
            for feature in self._components.features
            for each in feature.services
            if each.name in DELIVERS
        ]
        assert len(services) == len(DELIVERS), "the services have other names now"
        for _ in range(DELIVER_TURNS_MAX):
            before = self.store.max_log_offset
            for service in services:
                outcome = service.run()
                if outcome is not None:
                    await outcome
            if self.store.max_log_offset == before:
                return True
        raise AssertionError("deliveries do not end")

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._components.state.offsets.query(group, topic, queue_id)

    def messages(self, topic: str, queue_id: int) -> list[StoredMessage]:
        """All messages of a queue, as a consumer pulls them. Raises BadRecord for bytes that are no message."""
        found: list[StoredMessage] = []
        offset = self.store.min_queue_offset(topic, queue_id)
        while offset < self.store.max_queue_offset(topic, queue_id):
            fetched = self.store.get(topic, queue_id, offset, 32)
            found += split_records(b"".join(fetched.parts))
            if fetched.next_offset <= offset:
                raise AssertionError(f"{topic}:{queue_id} stands still at {offset}: {fetched}")
            offset = fetched.next_offset
        return found


def settings_of(conf: Path, store: Path) -> Settings:
    settings = read_config(conf, ServerRole.BROKER)
    return dataclasses.replace(settings, store=dataclasses.replace(settings.store, store_path=store))


@asynccontextmanager
async def opened(settings: Settings, *, now_ms: int) -> AsyncIterator[Opened]:
    """Recover the store; raises what the start of a broker raises."""
    clock = ManualClock(now_ms)
    components = Broker(settings.broker, settings.store, settings.server, clock).components()
    report = await Lifecycle(components).recover()
    try:
        yield Opened(components, report, clock)
    finally:
        components.state.store.close()
        components.state.remoting.close()
