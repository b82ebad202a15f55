"""What an entry of the catalogue costs others."""

import time
from typing import Protocol

from rocketeer.bench.processes import ServerProcess
from support.hold import Cost, HonestClient, Kind
from support.worst_requests.catalogue import Worst


class Attacked(Protocol):
    """A target of `scenes.py`."""

    @property
    def attacked(self) -> str: ...
    @property
    def honest(self) -> str: ...
    @property
    def process(self) -> ServerProcess: ...
    @property
    def kind(self) -> Kind: ...


def measure(target: Attacked, worst: Worst) -> Cost:
    """One try."""
    with HonestClient(target.honest, target.process.pid, target.kind) as honest:
        worst.attack(target.attacked)
        time.sleep(0.1)  # what the end of the attack leaves to do
    return honest.cost
