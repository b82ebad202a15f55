"""The two lists of worst requests, and how an entry comes into them."""

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


def broker(name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    def add(attack: Attack) -> Attack:
        BROKER.append(Worst(name, attack, memory_mb))
        return attack

    return add


def nameserver(name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    def add(attack: Attack) -> Attack:
        NAMESERVER.append(Worst(name, attack, memory_mb))
        return attack

    return add
