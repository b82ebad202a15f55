"""Where a topic lives: what the name server answers and the client picks queues from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MASTER_ID: Final = 0


@dataclass(frozen=True, slots=True)
class QueueData:
    """How many queues of the topic one broker (name) holds."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The addresses behind one broker name: id 0 is the master, others are slaves."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER_ID)


@dataclass(frozen=True, slots=True)
class Route:
    """All queues and brokers of one topic."""

    queues: tuple[QueueData, ...] = ()
    brokers: tuple[BrokerData, ...] = ()
    order_conf: str | None = None
