"""What becomes of a transactional message that is sent: it is stored out of sight, if there is room for one more."""

from typing import Final

from rocketeer.broker.feature import ConfigChange, Feature
from rocketeer.broker.features.transaction import messages
from rocketeer.broker.features.transaction.check_back import CheckRules
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.errors import RequestRefused
from rocketeer.model.property_names import DEDUP_ID, PGROUP, PRODUCER_SEQ, TRAN_MSG
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.layout import HEAD, PendingMessage
from rocketeer.record.properties import PROPERTIES_BYTES_MAX, find_property
from rocketeer.remoting.limits import busy_limit

CATCH_UP_HALVES: Final = 256
CATCH_UP_BYTES: Final = 16 << 20
"""Half messages that nobody knows yet, at most about."""


class HalfAdmission:
    """The rewrite that makes halves, and how many of them there may be."""

    def __init__(self, table: HalfTable, rules: CheckRules, *, broker_ip: str, rejected: bool) -> None:
        self._table = table
        self._broker_ip = broker_ip
        self.set_rules(rules, rejected=rejected)
        self._sent = self._sent_bytes = 0
        """Since the table learned of those that are stored."""

    def set_rules(self, rules: CheckRules, *, rejected: bool) -> None:
        """How many transactions may be open, and whether none is taken, from now on."""
        self._rules, self._rejected = rules, rejected

    def rewrite(self, message: PendingMessage) -> None:
        if not messages.is_half(message):
            return
        if self._rejected:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker_ip}] sending transaction message is forbidden",
            )
        if find_property(message.properties, PGROUP.encode()) is None:
            # Nobody could end it, and nobody could be asked.
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transaction message needs its producer group, property {PGROUP}",
            )
        if find_property(message.properties, DEDUP_ID.encode()) is not None:
            # After a rollback the id would be taken: sent again, the message would be answered and never delivered.
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transaction message cannot have a {DEDUP_ID}: give it a number, {PRODUCER_SEQ}",
            )
        messages.make_half(message)
        if len(message.properties) + messages.COPY_BYTES > PROPERTIES_BYTES_MAX:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties of a transaction message have {len(message.properties)} bytes: "
                f"{messages.COPY_BYTES} of {PROPERTIES_BYTES_MAX} are for notes of the broker",
            )
        self._make_room(HEAD.size + len(message.body) + len(message.properties))

    def _make_room(self, size: int) -> None:
        """RequestRefused when too many transactions are open."""
        # Whoever sends very many pays for them, and not who asks next.
        if self._sent >= CATCH_UP_HALVES or self._sent_bytes >= CATCH_UP_BYTES or not self._has_room(size):
            self._table.catch_up()
            self._sent = self._sent_bytes = 0
            if not self._has_room(size):
                rules, table = self._rules, self._table
                if len(table.pending) >= rules.half_messages_max:
                    raise busy_limit("open transactions", "limitHalfMessages", rules.half_messages_max)
                raise busy_limit("bytes of open transactions", "limitHalfBytes", rules.half_bytes_max)
        self._sent += 1
        self._sent_bytes += size

    def _has_room(self, size: int) -> bool:
        table, rules = self._table, self._rules
        return (
            len(table.pending) + self._sent < rules.half_messages_max
            and table.pending_bytes + self._sent_bytes + size <= rules.half_bytes_max
        )


def half_admission_feature(table: HalfTable, rules: CheckRules, *, broker_ip: str, rejected: bool) -> Feature:
    """Made before the writer, which applies it."""
    admission = HalfAdmission(table, rules, broker_ip=broker_ip, rejected=rejected)

    def follow(broker: BrokerConfig, store: StoreConfig) -> None:
        admission.set_rules(CheckRules.of(broker, store), rejected=broker.reject_transactions)

    return Feature(
        "transactional sends",
        claims=(TRAN_MSG,),
        rewrites=(admission.rewrite,),
        changes=(
            ConfigChange(
                ("rejectTransactionMessage", "transactionTimeOut", "transactionCheckMax", "fileReservedTime"),
                follow,
            ),
        ),
    )
