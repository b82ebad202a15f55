"""A master's part: the HA port, and the wait for a slave under SYNC_MASTER."""

from collections.abc import Callable
from typing import Final

from rocketeer.broker.feature import Durability, Feature, Periodic
from rocketeer.config import BrokerRole
from rocketeer.model.offsets import LogOffset
from rocketeer.observe import families
from rocketeer.observe.exposition import MetricsPage
from rocketeer.protocol.codes import ResponseCode
from rocketeer.replication.confirmations import Confirmations, SlaveOutcome
from rocketeer.replication.master import Master
from rocketeer.steps import Steps

TICK_S: Final = 0.1

_CODES: Final = {
    SlaveOutcome.CONFIRMED: ResponseCode.SUCCESS,
    SlaveOutcome.NO_SLAVE: ResponseCode.SLAVE_NOT_AVAILABLE,
    SlaveOutcome.TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
}


def master_feature(master: Master, role: BrokerRole) -> Feature:
    """ASYNC_MASTER only sends; under SYNC_MASTER whoever waits for durability waits for a slave, too."""
    waits = role is BrokerRole.SYNC_MASTER
    return Feature(
        "master",
        durability=(slave_durability(master.confirmations),) if waits else (),
        runners=(master,),
        services=(Periodic("slaves", TICK_S, master.tick),),
        gauges=(lambda page: _add_slaves(page, master),),
    )


def _add_slaves(page: MetricsPage, master: Master) -> Steps[None]:
    behind = master.behind()
    page.add(families.SLAVES, len(behind))
    for slave, size in behind.items():
        page.add(families.SLAVE_BEHIND, size, page.labels(slave=slave))
        yield


def slave_durability(confirmations: Confirmations) -> Durability:
    def durable(end: LogOffset, done: Callable[[int], None]) -> None:
        confirmations.wait(end, lambda outcome: done(_CODES[outcome]))

    return durable
