"""The lists of worst requests, by the place they are sent to, and how an entry comes into them."""

from collections.abc import Callable
from dataclasses import dataclass

Attack = Callable[[str], None]


@dataclass(frozen=True)
class Worst:
    """One entry: what it does, at most how many MB the server may take for it."""

    name: str
    attack: Attack
    memory_mb: int = 64


BROKER: list[Worst] = []
NAMESERVER: list[Worst] = []
HA_PORT: list[Worst] = []
MEMBERS_PORT: list[Worst] = []
METRICS_PORT: list[Worst] = []
EXTENDED: list[Worst] = []
CONSOLE: list[Worst] = []
TLS: list[Worst] = []
HA_TLS: list[Worst] = []
ACCOUNTS: list[Worst] = []
CATALOGUES: dict[str, list[Worst]] = {
    "broker": BROKER,
    "name server": NAMESERVER,
    "HA port": HA_PORT,
    "metrics port": METRICS_PORT,
    "broker with TLS": TLS,
    "HA port with TLS": HA_TLS,
    "broker with accounts": ACCOUNTS,
    "broker with bloom bits": EXTENDED,
    "members' port": MEMBERS_PORT,
    "console": CONSOLE,
}


def listed(catalogue: list[Worst], name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    def add(attack: Attack) -> Attack:
        catalogue.append(Worst(name, attack, memory_mb))
        return attack

    return add


def broker(name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    return listed(BROKER, name, memory_mb)


def nameserver(name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    return listed(NAMESERVER, name, memory_mb)
