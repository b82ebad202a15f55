"""The transaction feature on a real store, without a server: `from support.transactions import Rig`.

The clock stands still, a round of checks runs when told to, and a producer is a list of what it was asked.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any, cast

from rocketeer.broker.clients import ClientIdentity, ClientTable
from rocketeer.broker.feature import Feature
from rocketeer.broker.features.transaction.admission import half_admission_feature
from rocketeer.broker.features.transaction.check_back import CheckRules
from rocketeer.broker.features.transaction.feature import transaction_feature
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.replay import replay_log
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.config import BrokerConfig
from rocketeer.errors import RequestRefused
from rocketeer.model.topic import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.ids import offset_msg_id
from rocketeer.record.layout import PendingMessage, StoredMessage
from rocketeer.record.properties import encode_properties
from rocketeer.remoting.connection import Connection
from support.clock import ManualClock
from support.stores import BORN_HOST, STORE_HOST, make_store, read_queue

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
TOPIC = "TxTopic"
GROUP = "PG_tx"
ENDED = "The transaction has ended before, or was given up"


def ok(answer: Command | str) -> bool:
    return isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS


def times_asked(half: StoredMessage) -> str | None:
    return half.properties_dict().get("TRANSACTION_CHECK_TIMES")


class Peer:
    """A producer's connection, from the broker's side."""

    remote = "127.0.0.1:50000"

    def __init__(self) -> None:
        self.closed = False
        self.unread_bytes = 0
        self.sent: list[Command] = []

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def questions(self) -> list[Command]:
        """What it was asked since the last call."""
        code = RequestCode.CHECK_TRANSACTION_STATE
        asked = [command for command in self.sent if command.code == code]
        self.sent = [command for command in self.sent if command.code != code]
        return asked


class Rig:
    """One run of the feature in a folder; `kill` gives the folder as a process that dies now leaves it."""

    def __init__(
        self,
        folder: Path,
        clock: ManualClock | None = None,
        *,
        timeout_ms: int = 6_000,
        times_max: int = 15,
        rejected: bool = False,
        bounded: bool = False,
        rules: dict[str, int] | None = None,
        **store: Any,
    ) -> None:
        """`bounded`: nobody reads further than `bound` says, as in a group."""
        self.folder = folder
        self.clock = clock or ManualClock()
        self.store = make_store(folder, self.clock, bounded=bounded, **store)
        if self.store.confirmed is not None:
            self.bound = self.store.confirmed
        self.store.open()
        self.topics = TopicTable(BrokerConfig(), self.clock)
        self.offsets = ConsumerOffsets()
        self.clients: ClientTable[Connection] = ClientTable()
        self.counters = Counters()
        check_rules = CheckRules(
            timeout_ms=timeout_ms, times_max=times_max, interval_ms=60_000, **(rules or {})
        )
        self.table = HalfTable(self.store, self.offsets)
        self.admission = half_admission_feature(
            self.table, check_rules, broker_ip="127.0.0.1", rejected=rejected
        )
        self.writer = Writer(
            self.store,
            message_bytes_max=self.store.config.message_bytes_max,
            counters=self.counters,
            rewrites=self.admission.rewrites,
        )
        self.feature: Feature = transaction_feature(
            self.table,
            store=self.store,
            clients=self.clients,
            topics=self.topics,
            writer=self.writer,
            clock=self.clock,
            rules=check_rules,
            store_host=STORE_HOST,
            persist=self._persist,
            counters=self.counters,
        )
        for each in (self.offsets, self.table):
            path = folder / "config" / each.file_name
            if path.exists():
                each.decode(path.read_text())
        replay_log(self.store, self.feature.replays)

    # --- lives -------------------------------------------------------------------------------

    def save(self) -> None:
        """What the broker does every few seconds."""
        (self.folder / "config").mkdir(exist_ok=True)
        for each in (self.offsets, self.table):
            (self.folder / "config" / each.file_name).write_text(each.encode())

    async def _persist(self) -> None:
        """Persist nothing: tables are saved by `save` only, as by a broker that dies before its time comes."""

    def kill(self, copy: Path) -> Path:
        shutil.copytree(self.folder, copy)
        self.store.close()
        return copy

    def reopened(self, copy: Path) -> "Rig":
        """Open the store again as the next process does after a kill."""
        return Rig(self.kill(copy), self.clock)

    def close(self) -> None:
        self.save()
        self.store.close()

    # --- what clients do ---------------------------------------------------------------------

    def join(self, group: str = GROUP) -> Peer:
        peer = Peer()
        self.clients.producer_heartbeat(
            group, cast(Connection, peer), ClientIdentity("c", "PYTHON", 409), now_ms=0
        )
        return peer

    def leave(self, peer: Peer, group: str = GROUP) -> None:
        self.clients.unregister_producer(group, cast(Connection, peer))

    def put(self, message: PendingMessage, *, internal: bool = False) -> WriteResult:
        outcome: list[WriteResult] = []
        self.writer.put(message, outcome.append, internal=internal)
        return outcome[0]

    def prepare(self, body: bytes = b"half", key: str = "K", **properties: str) -> DispatchEntry:
        """Send a half message."""
        put = self.put(self.half(body, key, **properties))
        assert put.stored, put
        return put.appended[0]

    def half(self, body: bytes = b"half", key: str = "K", **properties: str) -> PendingMessage:
        named = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, "WAIT": "true", **properties}
        return PendingMessage(
            topic=TOPIC,
            queue_id=1,
            flag=7,
            sys_flag=4,
            born_ms=self.clock.now_ms(),
            born_host=BORN_HOST,
            body=body,
            properties=encode_properties(named),
        )

    def end(self, half: DispatchEntry, verdict: int = COMMIT, **changed: object) -> Command | str:
        """END_TRANSACTION for a half, answered: the reply, or the remark of the refusal."""
        header = {
            "producerGroup": GROUP,
            "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.log_offset,
            "commitOrRollback": verdict,
            **changed,
        }
        return self.ask(RequestCode.END_TRANSACTION, header)

    def resume(self, log_offset: int) -> Command | str:
        return self.ask(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": offset_msg_id(STORE_HOST, log_offset)}
        )

    def ask(self, code: int, header: dict[str, object]) -> Command | str:
        peer = Peer()
        command = request(code, {name: str(value) for name, value in header.items()})
        try:
            reply = self.feature.handlers[code](command, cast(Connection, peer))
        except RequestRefused as refusal:
            return refusal.remark
        assert reply is None or isinstance(reply, Command)
        return reply or peer.sent[0]

    def answer(self, question: Command, verdict: int) -> Command | str:
        """What a producer says when it is asked."""
        header = {
            "producerGroup": GROUP,
            "tranStateTableOffset": question.ext["tranStateTableOffset"],
            "commitLogOffset": question.ext["commitLogOffset"],
            "commitOrRollback": verdict,
            "fromTransactionCheck": "true",
        }
        return self.ask(RequestCode.END_TRANSACTION, header)

    def round(self, *, after_ms: int = 60_000) -> None:
        """Let time pass and ask after everything that is due."""
        self.clock.advance(ms=after_ms)
        outcome = self.feature.services[0].run()
        assert outcome is not None

        async def run() -> None:
            await outcome

        asyncio.run(run())

    # --- what is stored ----------------------------------------------------------------------

    def delivered(self) -> list[bytes]:
        return [message.body for message in read_queue(self.store, TOPIC, 1)]

    def halves(self) -> list[StoredMessage]:
        return read_queue(self.store, TRANS_HALF_TOPIC)

    def ops(self) -> list[bytes]:
        return [message.body for message in read_queue(self.store, TRANS_OP_HALF_TOPIC)]

    def given_up(self) -> list[StoredMessage]:
        return read_queue(self.store, TRANS_CHECK_MAX_TIME_TOPIC)

    def progress(self) -> tuple[int | None, int | None]:
        """Of the half and of the op queue, as RocketMQ would read it."""
        group = "CID_RMQ_SYS_TRANS"
        return (
            self.offsets.query(group, TRANS_HALF_TOPIC, 0),
            self.offsets.query(group, TRANS_OP_HALF_TOPIC, 0),
        )
