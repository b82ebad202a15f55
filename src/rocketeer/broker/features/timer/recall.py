"""RECALL_MESSAGE: a timed message that was not delivered yet never will be.

The note of it is a record of the log, so it outlives a crash; the message's own record stays where it is.
"""

from dataclasses import dataclass

from rocketeer.broker.features.timer.block import Timer
from rocketeer.broker.features.timer.delivery import TimerDelivery
from rocketeer.broker.features.timer.restore import key_hash
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import WriteResult, code_without_slaves
from rocketeer.clock import Clock
from rocketeer.errors import BadRecallHandle, RequestRefused
from rocketeer.model.topic import RETRY_PREFIX, TIMER_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.recall import RecallMessageHeader
from rocketeer.protocol.recall_handle import RecallHandle
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import StoredMessage
from rocketeer.record.properties import target_of
from rocketeer.record.timers import recalled
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.slices import InOrder
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore


@dataclass(frozen=True)
class RecallRules:
    """Whether messages may be recalled, and the name under which handles know this broker."""

    enabled: bool
    broker_name: str
    region: str


class Recall:
    """Gives handles out with the replies to sends, and takes them."""

    def __init__(
        self,
        rules: RecallRules,
        *,
        timers: TimerDelivery,
        topics: TopicTable,
        store: MessageStore,
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._timers = timers
        self._topics = topics
        self._store = store
        self._clock = clock

    def handle_field(self, topic: str, entry: DispatchEntry) -> dict[str, str]:
        """The handle, for the reply to the send that stored this message."""
        if entry.topic != TIMER_TOPIC or entry.uniq_key is None or topic.startswith(RETRY_PREFIX):
            return {}
        handle = RecallHandle(topic, self._rules.broker_name, entry.tag_code, entry.uniq_key)
        return {"recallHandle": handle.encode()}

    def handle(self, command: Command, connection: Connection) -> InOrder[Command | None]:
        """Handle a recall request, in steps: strangers may have timed millions of messages for one millisecond."""
        return InOrder(self._recalling(command, connection))

    def _recalling(self, command: Command, connection: Connection) -> Steps[Command | None]:
        header = decode_header(RecallMessageHeader, command.ext)
        region = {"MSG_REGION": self._rules.region}
        try:
            timer, message = yield from self._taking(header)
        except RequestRefused as refusal:
            return reply(command, refusal.code, refusal.remark, region)
        topic, message_id = header.topic, message.uniq_key or ""

        def done(put: WriteResult) -> None:
            if not put.stored:  # at once: nothing was delivered meanwhile
                self._timers.pending.add(timer)
            if code_without_slaves(put.code) == ResponseCode.SUCCESS:
                answer = reply(command, ext={**region, "msgId": message_id})
            else:
                answer = reply(command, put.code, put.remark, region)
            if not command.is_oneway:
                connection.send(answer)

        self._timers.store_recall(recalled(message, topic, message_id), done)
        return None

    def _taking(self, header: RecallMessageHeader) -> Steps[tuple[Timer, StoredMessage]]:
        """Find the recalled timer and remove it from those that wait; RequestRefused when it cannot be recalled."""
        if not self._rules.enabled:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if self._topics.get(header.topic) is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist"
            )
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except BadRecallHandle as error:
            raise RequestRefused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        if handle.topic != header.topic:
            raise RequestRefused(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != self._rules.broker_name:
            raise RequestRefused(
                ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available"
            )
        for timers in self._timers.pending.find(handle.deliver_ms, key_hash(handle.message_id)):
            for timer in timers:
                message = self._store.message_at(timer.log_offset)
                if message is not None and _is_meant(message, handle) and self._timers.pending.remove(timer):
                    return timer, message
                yield
            yield
        if handle.deliver_ms <= self._clock.now_ms():
            raise RequestRefused(
                ResponseCode.ILLEGAL_OPERATION,
                "recall failed, timestamp invalid: the message was delivered, or is being delivered",
            )
        raise RequestRefused(
            ResponseCode.ILLEGAL_OPERATION,
            f"recall failed, message {handle.message_id} does not wait here: it was recalled already, or never sent",
        )


def _is_meant(message: StoredMessage, handle: RecallHandle) -> bool:
    where = target_of(message.properties)
    return message.uniq_key == handle.message_id and where is not None and where[0] == handle.topic
