"""Tables that go through the group's log: offsets, queue locks, topics, groups.

    leader    a table changes -> a record of the change in the log -> confirmed -> the request is answered
    follower  the record is dispatched -> the table is the same
    start     tables from their files, then the records behind them once more

A record says what a thing is now, not what was done to it, so one that is seen twice does no harm. What is committed
by the way (with pulls, one-way) is recorded together, several times a second.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

from rocketeer.broker.feature import Dispatcher, Feature, Periodic, Replay
from rocketeer.broker.groups import GroupTable
from rocketeer.broker.locks import JournaledLocks
from rocketeer.broker.offsets import JournaledOffsets
from rocketeer.broker.topics import ChangeKind, TopicChange, TopicTable
from rocketeer.clock import Clock
from rocketeer.errors import OUTCOME_UNKNOWN, BadBody, RequestRefused, StoreRefused
from rocketeer.model.data_version import DataVersion
from rocketeer.model.offsets import LogOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.groups import decode_group_table, encode_group_entry, join_group_table
from rocketeer.protocol.bodies.topics import decode_topic_table, encode_topic_entry, join_topic_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.skip import Wanted
from rocketeer.record.table_change import TOPIC, is_table_change, table_change
from rocketeer.remoting.server import Connection, Handler
from rocketeer.store.message_store import MessageStore
from rocketeer.store.table_file import load_table

log = logging.getLogger(__name__)

RECORD_S: Final = 0.2
"""What nobody waits for is recorded this often."""
QUEUES_MAX: Final = 10_000
LOCKS_MAX: Final = 1_000
"""Of one record: it is no larger than messages are."""

SHARED: Final = (
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.CLONE_GROUP_OFFSET,
)
"""Requests that change the tables: only a leader takes them, and answers when the in-sync set has the change."""


class Position:
    """Which records the tables' files have; written after them. `whole`: they are the group's."""

    file_name = "groupTables.json"
    speaks_of_others = True

    def __init__(self, log_end: Callable[[], LogOffset], *, known_until: LogOffset | None) -> None:
        """`known_until`: what holds without a file; None: nothing is known, all records of the log are seen."""
        self._log_end = log_end
        self._saved = -1
        self.log_offset = LogOffset(0) if known_until is None else known_until
        self.whole = False

    def encode(self) -> str:
        self._saved = self.log_offset = self._log_end()
        return position_text(self.log_offset, self.whole)

    def decode(self, text: str) -> None:
        self.log_offset, self.whole = _decode_position(text)

    def take_dirty(self) -> bool:
        return self._saved != self._log_end()


def position_text(log_offset: LogOffset, whole: bool) -> str:
    return json.dumps({"logOffset": log_offset, "whole": whole})


def read_position(path: Path) -> LogOffset | None:
    """Up to where in the log a store's tables are known to have its records; None when that is not known."""
    text = load_table(path)
    try:
        return None if text is None else _decode_position(text)[0]
    except BadBody:
        return None


def _decode_position(text: str) -> tuple[LogOffset, bool]:
    try:
        told = json.loads(text)
        return LogOffset(int(told["logOffset"])), bool(told["whole"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadBody(f"no position of tables: {error}") from None


class SharedTables:
    """Belongs to the loop thread."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        host: bytes,
        *,
        offsets: JournaledOffsets,
        locks: JournaledLocks,
        topics: TopicTable,
        groups: GroupTable,
        position: Position,
    ) -> None:
        self._store = store
        self._clock = clock
        self._host = host
        self._offsets = offsets
        self._locks = locks
        self._topics = topics
        self._groups = groups
        self.position = position
        self._changed_topics: dict[str, None] = {}
        self._changed_groups: dict[str, None] = {}
        self._end = LogOffset(0)
        self._recording: asyncio.Future[LogOffset] | None = None

    def _replay(self) -> Replay:
        return Replay(lambda: self.position.log_offset, self.see, wanted=Wanted())

    # --- a follower --------------------------------------------------------------------------

    def follower_feature(self) -> Feature:
        return Feature(
            "shared tables",
            dispatchers=(Dispatcher(self.see, topics=frozenset({TOPIC})),),
            replays=(self._replay(),),
            state=(self._locks, self.position),
        )

    def follow_locks(self, text: str) -> None:
        """All locks, as the leader told them."""
        self._locks.follow(text)

    def see(self, entry: DispatchEntry) -> None:
        """A record of the log, perhaps for the second time."""
        if not is_table_change(entry):
            return
        message = self._store.message_at(entry.log_offset)
        if message is None:
            log.error("change of tables unreadable log_offset=%d", entry.log_offset)
            return
        self._apply(json.loads(message.body))

    def _apply(self, change: Mapping[str, Any]) -> None:
        for key, queues in change.get("offsets", {}).items():
            numbers = None if queues is None else {int(queue): offset for queue, offset in queues.items()}
            self._offsets.set_queues(key, numbers)
        for group, topic, broker_name, queue_id, client_id in change.get("locks", ()):
            self._locks.set_owner(group, MessageQueue(topic, broker_name, queue_id), client_id)
        if "topics" in change:
            configs, _ = decode_topic_table(change["topics"].encode())
            for config in configs.values():
                if self._topics.configs.get(config.name) != config:
                    self._topics.guess(config)
        for name in change.get("topicsGone", ()):
            self._topics.follow_deletion(name)
        if "groups" in change:
            groups, _ = decode_group_table(change["groups"].encode())
            for group in groups.values():
                self._groups.put(group)
        for name in change.get("groupsGone", ()):
            self._groups.delete(name)

    # --- the leader --------------------------------------------------------------------------

    def leader_feature(self) -> Feature:
        return Feature(
            "shared tables",
            replays=(Replay(lambda: self.position.log_offset, self.see, self._watch, Wanted()),),
            services=(Periodic("record changes of tables", RECORD_S, self._record_or_wait),),
            state=(self._locks, self.position),
        )

    def _watch(self) -> None:
        """From now on: what the replay did is no change. A leader's tables are the group's."""
        self.position.whole = True
        self._offsets.changed.clear()
        self._locks.changed.clear()
        self._topics.on_change.append(self._topic_changed)
        self._groups.on_change.append(lambda name: self._changed_groups.update({name: None}))

    def _topic_changed(self, change: TopicChange) -> None:
        self._changed_topics[change.topic.name] = None
        if change.kind is ChangeKind.CREATED:
            self._record_or_wait()  # before the first message of the topic

    def handler(
        self, handler: Handler, confirmed: Callable[[LogOffset, Callable[[int], None]], None]
    ) -> Handler:
        """Answers when the in-sync set has what the request changed. `confirmed` calls back with a code."""

        async def shared(command: Command, connection: Connection) -> Command | None:
            refusal = self._store.refusal
            if refusal is not None:
                raise RequestRefused(
                    ResponseCode.SERVICE_NOT_AVAILABLE, f"nothing can be changed now: {refusal}"
                )
            answer: Command | Awaitable[Command | None] | None = handler(command, connection)
            if isawaitable(answer):
                answer = await answer
            if command.is_oneway:
                return None
            try:
                end = await self._recorded()
            except StoreRefused as refused:
                raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, str(refused)) from None
            waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            confirmed(end, lambda code: None if waited.done() else waited.set_result(code))
            if await waited != ResponseCode.SUCCESS:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, OUTCOME_UNKNOWN)
            assert answer is None or isinstance(answer, Command)
            return answer

        return shared

    def telling_locks(self, handler: Handler) -> Handler:
        """A handler that tells tables by their names, and the locks as they are now."""

        def tell(command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
            if command.ext.get("name") != JournaledLocks.file_name:
                return handler(command, connection)
            return reply(command, body=self._locks.encode().encode())

        return tell

    async def _recorded(self) -> LogOffset:
        """The end of the record of all that changed so far; requests of one turn of the loop share one."""
        if self._recording is None:
            loop = asyncio.get_running_loop()
            self._recording = loop.create_future()
            loop.call_soon(self._record_for_all)
        return await asyncio.shield(self._recording)

    def _record_for_all(self) -> None:
        recording, self._recording = self._recording, None
        assert recording is not None
        try:
            end = self.record()
        except StoreRefused as refused:
            recording.set_exception(refused)
        else:
            recording.set_result(end)

    def _record_or_wait(self) -> None:
        try:
            self.record()
        except StoreRefused as refused:  # it stays noted
            log.debug("changes of tables wait reason=%s", refused)

    def record(self) -> LogOffset:
        """Bring all that changed into the log; where its last record ends. StoreRefused, and all stays noted."""
        while True:
            refusal = self._store.refusal
            waits = (
                self._offsets.changed or self._locks.changed or self._changed_topics or self._changed_groups
            )
            if not waits:
                return self._end
            if refusal is not None:
                raise StoreRefused(refusal.reason, str(refusal))
            body = json.dumps(self._take(), separators=(",", ":")).encode()
            message = table_change(body, now_ms=self._clock.now_ms(), host=self._host)
            self._end = self._store.append(message).end

    def _take(self) -> dict[str, Any]:
        change: dict[str, Any] = {}
        table, changed = self._offsets.table, self._offsets.changed
        offsets: dict[str, Mapping[int, int] | None] = {}
        room = QUEUES_MAX
        while changed and room > 0:
            key = changed.pop()
            offsets[key] = queues = table.get(key)
            room -= 1 + len(queues or ())
        if offsets:
            change["offsets"] = offsets
        locks = self._locks.changed
        if locks:
            change["locks"] = [
                [group, queue.topic, queue.broker_name, queue.queue_id, locks[group, queue]]
                for group, queue in list(locks)[:LOCKS_MAX]
            ]
            for group, topic, broker_name, queue_id, _ in change["locks"]:
                del locks[group, MessageQueue(topic, broker_name, queue_id)]
        version = DataVersion(0, 0)
        if self._changed_topics:
            names, self._changed_topics = self._changed_topics, {}
            known = self._topics.configs
            entries = [encode_topic_entry(known[name]) for name in names if name in known]
            change["topics"] = join_topic_table(entries, version).decode()
            change["topicsGone"] = [name for name in names if name not in known]
        if self._changed_groups:
            names, self._changed_groups = self._changed_groups, {}
            configs = self._groups.configs
            found = [encode_group_entry(configs[name]) for name in names if name in configs]
            change["groups"] = join_group_table(found, version).decode()
            change["groupsGone"] = [name for name in names if name not in configs]
        return change
