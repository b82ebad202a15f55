"""Transactional messages: a half is stored out of sight, its producer's verdict (37) delivers or drops it.

The way of a message: send -> `admission` (half topic) -> END_TRANSACTION, or CHECK_TRANSACTION_STATE and then
END_TRANSACTION (`check_back`) -> its own topic and an op message (`ledger`).
A transaction ends once, whatever copies of the half there are and whoever says so how often: RocketMQ delivers a
message again for every commit it gets.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.feature import ConfigChange, Feature, Periodic, Replay
from rocketeer.broker.features.transaction import messages
from rocketeer.broker.features.transaction.check_back import CheckRules, Checks
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.broker.features.transaction.ledger import Ledger
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer, WriteResult, code_without_slaves
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.errors import BadMessageId, RequestRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import PGROUP
from rocketeer.model.topic import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketeer.observe.counters import Counters
from rocketeer.observe.exposition import MetricsPage
from rocketeer.observe.families import HALF_MESSAGES
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHalfMessageHeader
from rocketeer.record.flags import TX_COMMIT, TX_ROLLBACK
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import StoredMessage
from rocketeer.record.skip import SkipFilter
from rocketeer.remoting.connection import Connection
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

NOTE_S: Final = 1.0
HALVES_READ: Final = 200
"""Half messages looked at for one page of metrics."""
UNKNOWN: Final = 0
NOT_FOUND: Final = "Find prepared transaction message failed"
ENDED: Final = "The transaction has ended before, or was given up"
RESUME_FAILED: Final = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


class HalfMessages:
    """How many transactions are open, by topic; remembers the topics of halves it has looked at."""

    def __init__(self, table: HalfTable, store: MessageStore) -> None:
        self._table = table
        self._store = store
        self._topics: dict[int, str] = {}

    def add_to(self, page: MetricsPage) -> Steps[None]:
        self._table.catch_up()
        pending, known = self._table.pending, self._topics
        for log_offset in list(known):
            if log_offset not in pending:
                del known[log_offset]
            yield
        read = 0
        counts: Counter[str] = Counter()
        for log_offset in list(pending):
            topic = known.get(log_offset)
            if topic is None and read < HALVES_READ:
                half = self._store.message_at(log_offset)
                topic = None if half is None else messages.topic_of(half)
                read += 1
            if topic is not None:
                known[log_offset] = topic
                counts[topic] += 1
            yield
        if len(pending) > len(known):  # so many at once: the next pages know more of them
            counts["unknown"] = len(pending) - len(known)
        for topic, count in counts.items():
            page.add(HALF_MESSAGES, count, page.labels(topic=topic))
            yield


class TransactionEnds:
    """END_TRANSACTION (37), and 323 for operators."""

    def __init__(self, ledger: Ledger, counters: Counters, clock: Clock) -> None:
        self._ledger = ledger
        self._counters = counters
        self._clock = clock

    def end(self, command: Command, connection: Connection) -> Command | None:
        """Mostly one-way: a wrong one is logged and changes nothing."""
        header = decode_header(EndTransactionHeader, command.ext)
        try:
            return self._end(header, command, connection)
        except RequestRefused as refusal:
            log.warning("end of transaction refused remote=%s header=%s reason=%s",
                        connection.remote, header, refusal)  # fmt: skip
            raise

    def _end(self, header: EndTransactionHeader, command: Command, connection: Connection) -> Command | None:
        if header.verdict == UNKNOWN:
            log.info("transaction still open remote=%s header=%s remark=%s",
                     connection.remote, header, command.remark)  # fmt: skip
            return reply(command)
        if header.verdict not in (TX_COMMIT, TX_ROLLBACK):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"commitOrRollback is {header.verdict}: {TX_COMMIT} commits, {TX_ROLLBACK} rolls back, 0 is unknown",
            )
        half = self._half(header)
        self._ledger.table.catch_up()
        pending = self._ledger.table.find(half)
        if pending is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, ENDED)

        def done(put: WriteResult) -> None:
            put = put._replace(code=code_without_slaves(put.code))
            if put.code != ResponseCode.SUCCESS:
                log.error("end of transaction not safe on disk header=%s code=%d reason=%s",
                          header, put.code, put.remark)  # fmt: skip
            if put.stored:
                open_ms = max(0, self._clock.now_ms() - half.born_ms)
                self._counters.ended(messages.topic_of(half), header.verdict == TX_COMMIT, open_ms)
            if not command.is_oneway:
                connection.send(reply(command, put.code, put.remark))

        if header.verdict == TX_ROLLBACK:
            self._ledger.rollback(half, pending, done)
            return None
        try:
            self._ledger.commit(half, pending, done)
        except ValueError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{NOT_FOUND}: {error}") from None
        return None

    def _half(self, header: EndTransactionHeader) -> StoredMessage:
        half = self._ledger.store.named_at(LogOffset(header.log_offset))
        if half is None or half.topic != TRANS_HALF_TOPIC:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        if half.properties_dict().get(PGROUP) != header.producer_group:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.queue_offset != header.half_queue_offset:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        return half

    def resume(self, command: Command, connection: Connection) -> None:
        """323: ask after a half from the beginning, also after one that was given up."""
        header = decode_header(ResumeCheckHalfMessageHeader, command.ext)
        try:
            _, log_offset = parse_offset_msg_id(header.msg_id or "")
        except BadMessageId as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{RESUME_FAILED} {error}") from None
        message = self._ledger.store.named_at(log_offset)
        if message is None or message.topic not in (TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"{RESUME_FAILED} {header.msg_id} is no half message of this broker",
            )

        def done(put: WriteResult) -> None:
            code = code_without_slaves(put.code)
            if not put.stored or code != ResponseCode.SUCCESS:
                log.error("resumed half message not safe on disk id=%s code=%d reason=%s",
                          header.msg_id, put.code, put.remark)  # fmt: skip
                connection.send(reply(command, ResponseCode.SYSTEM_ERROR, RESUME_FAILED))
            else:
                connection.send(reply(command))

        self._ledger.resume(message, done)


def transaction_feature(
    table: HalfTable,
    *,
    store: MessageStore,
    clients: ClientTable[Connection],
    topics: TopicTable,
    writer: Writer,
    clock: Clock,
    rules: CheckRules,
    store_host: bytes,
    persist: Callable[[], Awaitable[None]],
    counters: Counters,
) -> Feature:
    ledger = Ledger(table, store=store, topics=topics, writer=writer, clock=clock, store_host=store_host)
    checks = Checks(ledger, rules, clients=clients, topics=topics, clock=clock, persist=persist)
    verdicts = TransactionEnds(ledger, counters, clock)

    def follow(broker: BrokerConfig, store: StoreConfig) -> None:
        checks.set_rules(CheckRules.of(broker, store))

    half_messages = HalfMessages(table, store)
    return Feature(
        "transactions",
        internal_topics=(TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC),
        handlers={
            RequestCode.END_TRANSACTION: verdicts.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: verdicts.resume,
        },
        changes=(ConfigChange(("transactionTimeOut", "transactionCheckMax", "fileReservedTime"), follow),),
        replays=(
            Replay(table.load, table.on_message, wanted=SkipFilter(frozenset({TRANS_CHECK_MAX_TIME_TOPIC}))),
        ),
        services=(
            Periodic("ask after transactions", rules.interval_ms / 1000, checks.run),
            Periodic(
                "note half messages", NOTE_S, table.catch_up
            ),  # so that nobody finds a minute's worth of them
        ),
        state=(table,),
        gauges=(half_messages.add_to,),
        needs=(lambda: next(iter(table.pending), None),),
        rolls=(ledger.roll,),
    )
