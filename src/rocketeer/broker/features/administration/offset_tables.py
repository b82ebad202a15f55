"""Groups' offsets as a whole: who consumes a topic (300), corrections (308), copies (314)."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Protocol

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.model.offsets import QueueOffset
from rocketeer.protocol.bodies.groups import encoding_group_list
from rocketeer.protocol.bodies.long_body import SORTED_MAX
from rocketeer.protocol.bodies.offsets import encode_corrections
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.offsets import CloneGroupOffsetHeader, QueryCorrectionOffsetHeader
from rocketeer.protocol.headers.topics import TopicHeader
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.steps import Steps

NO_CORRECTION: Final = QueueOffset((1 << 63) - 1)
"""What RocketMQ says of a queue in which the compared group is not ahead."""
GROUPS_AT_ONCE: Final = 256


class QueueBegins(Protocol):
    def min_queue_offset(self, topic: str, queue_id: int) -> QueueOffset: ...


class OffsetTables:
    """Reads and corrects the offsets of many queues at once, in slices."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        *,
        topics: TopicTable,
        clients: ClientTable[Connection],
        queues: QueueBegins,
        persist: Callable[[], Awaitable[None]],
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._clients = clients
        self._queues = queues
        self._persist = persist

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.consumed_by,
            RequestCode.QUERY_CORRECTION_OFFSET: self.corrections,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    def consumed_by(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(self.consuming(command))

    def consuming(self, command: Command) -> Steps[Command]:
        topic = decode_header(TopicHeader, command.ext).topic
        groups = yield from self._offsets.groups_of(topic)
        others: list[str] = []
        for number, group in enumerate((yield from self._clients.groups_subscribed_to(topic)), 1):
            if not self._offsets.of(group, topic):
                others.append(group)
            if number % GROUPS_AT_ONCE == 0:
                yield
        told: Iterable[str] = chain(groups, others)
        if len(groups) + len(others) <= SORTED_MAX:
            told = sorted(told)
        return reply(command, body=(yield from encoding_group_list(told)))

    def corrections(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        """How far back the other groups are, by queue; `filterGroups` are left out."""
        return run_sliced(self.correcting(command))

    def correcting(self, command: Command) -> Steps[Command]:
        header = decode_header(QueryCorrectionOffsetHeader, command.ext)
        left_out = set((header.filter_groups or "").split(","))
        table: dict[int, QueueOffset] = {}
        groups = yield from self._offsets.groups_of(header.topic)
        for group in groups:
            yield
            if group in left_out:
                continue
            for queue_id, offset in _walk(self._offsets.of(group, header.topic)):
                if offset >= self._queues.min_queue_offset(header.topic, queue_id):
                    table[queue_id] = min(offset, table.get(queue_id, offset))
                yield
        for queue_id, offset in _walk(self._offsets.of(header.compare_group, header.topic)):
            if queue_id in table and table[queue_id] > offset:
                table[queue_id] = NO_CORRECTION
            yield
        return reply(command, body=encode_corrections(table))

    async def clone(self, command: Command, connection: Connection) -> Command:
        await in_slices(self._cloning(decode_header(CloneGroupOffsetHeader, command.ext)))
        await self._persist()
        return reply(command)

    def _cloning(self, header: CloneGroupOffsetHeader) -> Steps[None]:
        asked = (header.topic or "").strip()
        names = {asked} if asked else (yield from self._offsets.topics_of(header.source_group))
        online = None if header.offline else self._clients.consumer(header.source_group)
        for name in names:
            yield
            if self._topics.get(name) is None:
                continue
            if online is not None and online.subscriptions and name not in online.subscriptions:
                continue
            yield from self._offsets.copying_group(header.source_group, header.target_group, name)


def _walk(queues: Mapping[int, QueueOffset]) -> Iterator[tuple[int, QueueOffset]]:
    """Iterate over (queue id, offset) of a topic without building a list of very many pairs."""
    for queue_id in list(queues):
        offset = queues.get(queue_id)
        if offset is not None:
            yield queue_id, offset
