"""A slave's part: follow the master; refuse what only a master may do."""

from collections.abc import Mapping
from typing import Final, NoReturn

from rocketeer.broker.feature import Feature
from rocketeer.errors import RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.router import Connection, Handler
from rocketeer.replication.receiver import Receiver

NOT_HERE: Final = (
    "Can't modify topic or subscription group from slave broker, please execute it from master broker."
)

MASTER_ONLY: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
)


def _refusals(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """What answers instead of the handlers that a master has."""
    return {**dict.fromkeys(MASTER_ONLY, _refuse_change), RequestCode.END_TRANSACTION: _refuse_end}


def _refuse_change(command: Command, connection: Connection) -> NoReturn:
    raise RequestRefused(ResponseCode.SYSTEM_ERROR, NOT_HERE)


def _refuse_end(command: Command, connection: Connection) -> Command:
    return reply(command, ResponseCode.SLAVE_NOT_AVAILABLE)


def slave_feature(receiver: Receiver) -> Feature:
    return Feature("slave", runners=(receiver,), overrides=(_refusals,))
