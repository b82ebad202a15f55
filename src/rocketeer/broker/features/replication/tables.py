"""Tables that follow the master: topics (21), consumer offsets (43), delay progress (45), groups (201), our own.

What a table says of the log must be true of the slave's own: offsets and progress are taken over when the slave's
log on disk has reached the place where the master's ended when it told them. A master of ours names that place in its
replies; one of 4.9.8 is asked for it (28).

Features whose services rest on a slave have their table's file copied: a slave that becomes a master finds there
where its master was, and the log behind it tells the rest, as after a crash.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from rocketeer.broker.feature import Dispatcher, Feature, Periodic
from rocketeer.broker.features.replication.packed import ASKING, packed_tables, unpacked
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.registration import RemoteCaller
from rocketeer.broker.table_text import TableReplies, wants_packed
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.errors import BadBody, ProtocolError, RemotingError, RequestRefused
from rocketeer.model.data_version import DataVersion
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.groups import decode_group_table
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.protocol.bodies.topics import decode_topic_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_PREPARED
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices
from rocketeer.replication.offsets import OffsetMerge
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

SYNC_S: Final = 10.0
LOOK_S: Final = 0.5
ASK_S: Final = 10.0
NEW_TOPIC_S: Final = 0.2
"""A topic that is met in the log and not in the table is asked for, this often at most."""

CopiedFiles = Mapping[str, int]
"""Names of tables' files that slaves copy, and the request that tells each; GET_BROKER_TABLE tells those that
RocketMQ does not have, and is asked of masters of ours only."""
NO_DELAYS: Final = '{"offsetTable":{}}'

LOG_OFFSET: Final = "rocketeerLogOffset"
BEGUN: Final = "rocketeerBegun"
"""Where the log ended when the telling began, which takes a while: what was committed since may be told or not."""
STARTED: Final = "rocketeerStarted"
NAMES_AT_ONCE: Final = 256


class Files(Protocol):
    """The files under config/."""

    async def saved_text(self, file_name: str) -> str | None:
        """A table as it was last saved."""
        ...

    async def save_text(self, file_name: str, text: str) -> None: ...


# --- telling ---------------------------------------------------------------------------------


def table_feature(
    offsets: ConsumerOffsets, copied_files: CopiedFiles, files: Files, store: MessageStore
) -> Feature:
    """The handlers that give slaves this broker's tables; as in RocketMQ, a slave answers them too."""
    started = secrets.token_hex(8)
    replies = TableReplies()
    (delay_file,) = [name for name, code in copied_files.items() if code == RequestCode.GET_ALL_DELAY_OFFSET]
    own_files = [name for name, code in copied_files.items() if code == RequestCode.GET_BROKER_TABLE]

    def mark() -> dict[str, str]:
        """Reply fields: where the log ends now (the table speaks of nothing beyond it), and an id of this start of
        the broker."""
        return {LOG_OFFSET: str(store.max_log_offset), STARTED: started}

    def consumer_offsets(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        def steps() -> Steps[Command]:
            begun = str(store.max_log_offset)
            body = yield from offsets.encoding(any_size=wants_packed(command))
            return reply(command, ext={**mark(), BEGUN: begun}, body=body)

        return replies.run(steps(), len(offsets))

    async def delay_offsets(command: Command, connection: Connection) -> Command:
        text = await files.saved_text(delay_file)
        return reply(command, ext=mark(), body=(text or NO_DELAYS).encode())

    async def own_table(command: Command, connection: Connection) -> Command:
        name = command.ext.get("name", "")
        if name not in own_files:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"no table {name[:100]!r}; there are {', '.join(own_files)}"
            )
        text = await files.saved_text(name)
        return reply(command, ext=mark(), body=(text or "").encode())

    handlers: dict[int, Handler] = {
        RequestCode.GET_ALL_CONSUMER_OFFSET: consumer_offsets,
        RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
        RequestCode.GET_BROKER_TABLE: own_table,
    }
    return Feature("tables", handlers=handlers, overrides=(packed_tables,))


# --- following -------------------------------------------------------------------------------


class WaitingTable(NamedTuple):
    """A table that is taken over once the log on disk has reached `log_offset`."""

    log_offset: LogOffset
    apply: Callable[[], Awaitable[None] | None]


class FollowedTables:
    """A slave's tables. Belongs to the loop thread."""

    def __init__(
        self,
        client: RemoteCaller,
        *,
        topics: TopicTable,
        groups: ConsumerGroupTable,
        offsets: ConsumerOffsets,
        copied_files: CopiedFiles,
        files: Files,
        store: MessageStore,
        clock: Clock,
        own_address: str,
    ) -> None:
        self._client = client
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._copied_files = copied_files
        self._files = files
        self._store = store
        self._clock = clock
        self._own_address = own_address
        self._address = ""
        self._next_s = 0.0
        self._held: dict[str, WaitingTable] = {}
        self._merge = OffsetMerge()
        self._provisional: set[str] = set()
        self._master_is_ours = False
        self._told = ""

    def feature(self) -> Feature:
        return Feature(
            "followed tables",
            dispatchers=(Dispatcher(self._note_unknown_topic, each_queue=True),),
            services=(Periodic("tables of the master", LOOK_S, self.look),),
        )

    def master_named(self, address: str) -> None:
        """Follow the master at this address, as a name server has announced it."""
        if address != self._address and address != self._own_address:
            self._address = address
            self._next_s = 0.0

    def _note_unknown_topic(self, entry: DispatchEntry) -> None:
        """Note a message of an unknown topic or queue: create the topic provisionally and ask the master soon."""
        if entry.sys_flag & TX_PREPARED:
            return  # in no queue: half messages, and records that end a topic
        topic = self._topics.configs.get(entry.topic)
        if topic is not None and (topic.read_queues > entry.queue_id or entry.topic not in self._provisional):
            return
        self._provisional.add(entry.topic)
        queues = entry.queue_id + 1
        self._topics.add_provisional(TopicConfig(entry.topic, read_queues=queues, write_queues=queues))
        self._next_s = min(self._next_s, self._clock.monotonic_s() + NEW_TOPIC_S)

    async def look(self) -> None:
        """Ask the master when it is time, and take over what the log has reached."""
        now_s = self._clock.monotonic_s()
        if self._address and now_s >= self._next_s:
            self._next_s = now_s + SYNC_S
            try:
                await self._sync(self._address)
                self._told = ""
            except (RemotingError, ProtocolError) as error:
                self._tell(str(error))
        await self._take_reached()

    async def _sync(self, address: str) -> None:
        """Copy every table from the master, each independently, so that one unreadable table does not stop the
        others."""
        topics = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        await in_slices(self._follow_topics(*await asyncio.to_thread(decode_topic_table, topics.body)))
        groups = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        if groups.body:
            await in_slices(self._groups.following(*await asyncio.to_thread(decode_group_table, groups.body)))
        offsets = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        files = await self._files_of(address, RequestCode.GET_ALL_DELAY_OFFSET)
        is_ours = self._master_is_ours = LOG_OFFSET in offsets.ext
        if is_ours:
            at, started = number_of(offsets.ext, LOG_OFFSET), offsets.ext.get(STARTED, "")
        else:
            info = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
            facts = decode_kv_table(info.body)
            at, started = number_of(facts, "commitLogMaxOffset"), facts.get("bootTimestamp", "")
        told = await asyncio.to_thread(decode_consumer_offsets, offsets.body)
        self._held["offsets"] = WaitingTable(
            LogOffset(at), lambda: in_slices(self._follow_offsets(told, started))
        )
        if is_ours:
            files |= await self._files_of(address, RequestCode.GET_BROKER_TABLE)
        for name, answer in files.items():
            self._hold_file(name, answer, at)

    async def _files_of(self, address: str, told_by: int) -> dict[str, Command]:
        """The answers with those of the copied files that this request tells, by their names."""
        names = [name for name, code in self._copied_files.items() if code == told_by]
        is_named = told_by == RequestCode.GET_BROKER_TABLE
        return {
            name: await self._ask(address, told_by, {"name": name} if is_named else None) for name in names
        }

    def _hold_file(self, name: str, answer: Command, at: int) -> None:
        text = answer.body.decode("utf-8", "replace")
        if text:
            known = number_of(answer.ext, LOG_OFFSET) if LOG_OFFSET in answer.ext else at
            self._held[name] = WaitingTable(LogOffset(known), lambda: self._files.save_text(name, text))

    async def _ask(self, address: str, code: int, ext: dict[str, str] | None = None) -> Command:
        answer = await self._client.invoke(address, request(code, {**ASKING, **(ext or {})}), ASK_S)
        if answer.code != ResponseCode.SUCCESS:
            raise BadBody(f"{address} answers request {code} with {answer.code}: {answer.remark}")
        answer.body = await unpacked(answer)
        return answer

    async def _take_reached(self) -> None:
        flushed = self._store.flushed_log_offset
        for name, held in list(self._held.items()):
            if held.log_offset <= flushed and self._held.get(name) is held:  # not given up meanwhile
                del self._held[name]
                taking = held.apply()
                if taking is not None:
                    await taking

    # --- one table ---------------------------------------------------------------------------

    def _follow_topics(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> Steps[None]:
        if version == self._topics.version and not self._provisional:
            return
        self._provisional -= topics.keys()
        gone: list[str] = []
        for number, name in enumerate(list(self._topics.configs), 1):
            if name not in topics and name not in self._provisional and not self._topics.is_system(name):
                gone.append(name)
            if number % NAMES_AT_ONCE == 0:
                yield
        yield from self._topics.following(topics, version)
        if gone:
            # Their last messages may be on the way yet: their queues go when the log has been copied that far.
            at = self._store.max_log_offset
            self._held["topics"] = WaitingTable(LogOffset(at), lambda: in_slices(self._forget_topics(gone)))

    def _forget_topics(self, gone: Iterable[str]) -> Steps[None]:
        """Remove topics that the master no longer has, and their queues if the master is not Rocketeer (ours ends
        topics in the log)."""
        for name in gone:
            log.info("topic deleted by the master topic=%s", name)
            self._topics.follow_deletion(name)
            if not self._master_is_ours:
                self._store.delete_topic(name)
            yield

    def _follow_offsets(self, theirs: dict[str, dict[int, QueueOffset]], started: str) -> Steps[None]:
        for change in self._merge.merging(self._offsets.table, theirs, started):
            if change is not None:
                self._offsets.set_queues(*change)
            yield

    def _tell(self, text: str) -> None:
        """Log a failure to sync, unless it is the same as the last one."""
        if text != self._told:
            log.warning("tables not synced master=%s reason=%s", self._address, text)
        self._told = text


def number_of(texts: "dict[str, str]", name: str) -> int:
    try:
        return int(texts[name])
    except (KeyError, ValueError):
        raise BadBody(f"the master says {name}={texts.get(name)!r}, which is no number") from None
