"""The tables of a broker that copies another one's: a slave's, or those of a follower in a group."""

from collections.abc import Callable
from typing import Final, TypeVar

from rocketeer.broker.features.delay.offsets import DelayOffsets
from rocketeer.broker.features.replication.tables import CopiedFiles, FollowedTables
from rocketeer.broker.features.retry.sent_back import SentBack
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.broker.state import BrokerState
from rocketeer.protocol.codes import RequestCode

Tables = TypeVar("Tables", bound=FollowedTables)

COPIED_FILES: Final[CopiedFiles] = {
    DelayOffsets.file_name: RequestCode.GET_ALL_DELAY_OFFSET,
    SentBack.file_name: RequestCode.GET_BROKER_TABLE,
    HalfTable.file_name: RequestCode.GET_BROKER_TABLE,
}
"""Files of features whose services rest while a broker follows: each says how far it was at a place of the log."""


def followed_tables(make: Callable[..., Tables], state: BrokerState) -> Tables:
    """Make what follows another broker's tables, of this broker's own, which become like them."""
    state.topics.on_change.append(lambda change: state.store.forget_copied_queues())
    return make(
        state.remoting,
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        copied_files=COPIED_FILES,
        files=state.tables,
        store=state.store,
        clock=state.clock,
        own_address=state.identity.address,
    )
