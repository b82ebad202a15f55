"""Ending a transaction: END_TRANSACTION to the broker that has the half message. One-way, as RocketMQ's clients do.

A verdict that gets lost is no harm: the broker asks after a while.
"""

import logging
from typing import Final

from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.hooks import TransactionContext, tell_transaction_hooks
from rocketeer.client.core.routes import vip_address
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.core.transactions import TransactionResult, TransactionState, with_state
from rocketeer.client.plans.effects import Oneway, Plan
from rocketeer.client.plans.send import Sender
from rocketeer.errors import BadMessageId, RocketeerError
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.base import encode_header
from rocketeer.protocol.headers.transaction import CheckTransactionStateHeader, EndTransactionHeader
from rocketeer.record.ids import parse_offset_msg_id

log = logging.getLogger(__name__)

STATE_NAMES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
"""RocketMQ's names, as traces have them."""


def finish(
    sender: Sender,
    sent: SendResult,
    state: TransactionState,
    error: BaseException | None = None,
    *,
    outgoing: Outgoing | None = None,
) -> Plan[TransactionResult]:
    """Tell the broker how the local transaction ended; a broker that cannot be told will ask."""
    config = sender.config
    broker = sent.queue.broker_name
    try:
        address = sender.routes.master(broker)
        if address is None:
            raise RocketeerError(f"broker {broker!r} is not known any more")
        _, log_offset = parse_offset_msg_id(sent.offset_message_id)
        if sender.hooks and outgoing is not None:
            ended = TransactionContext(
                config.full_group, outgoing.topic, sent.message_id, outgoing.properties, address,
                sent.transaction_id or sent.message_id, STATE_NAMES[state], from_check=False,
            )  # fmt: skip
            tell_transaction_hooks(sender.hooks, ended)
        header = EndTransactionHeader(
            producer_group=config.full_group,
            half_queue_offset=sent.queue_offset,
            log_offset=log_offset,
            verdict=int(state),
            msg_id=sent.message_id,
            transaction_id=sent.transaction_id,
        )
        remark = None if error is None else f"executeLocalTransactionBranch exception: {_text(error)}"
        command = _command(header, remark)
        command.ext["bname"] = broker
        yield Oneway(vip_address(address) if config.vip_channel else address, command, config.send_timeout_s)
    except (RocketeerError, BadMessageId) as failure:
        log.warning("broker not told how a transaction ended id=%s state=%s reason=%s",
                    sent.message_id, state.name, failure)  # fmt: skip
    return with_state(sent, state)


def answer_check(
    address: str,
    group: str,
    asked: CheckTransactionStateHeader,
    message_id: str,
    state: TransactionState,
    error: BaseException | None,
    timeout_s: float,
) -> Plan[None]:
    """Tell a broker that asked."""
    header = EndTransactionHeader(
        producer_group=group,
        half_queue_offset=asked.half_queue_offset,
        log_offset=asked.log_offset,
        verdict=int(state),
        from_check=True,
        msg_id=message_id,
        transaction_id=asked.transaction_id,
    )
    remark = None if error is None else f"checkLocalTransactionState Exception: {_text(error)}"
    yield Oneway(address, _command(header, remark), timeout_s)


def _command(header: EndTransactionHeader, remark: str | None) -> Command:
    command = request(RequestCode.END_TRANSACTION, encode_header(header), oneway=True)
    command.remark = remark
    return command


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:1000]
