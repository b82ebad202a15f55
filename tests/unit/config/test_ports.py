"""Ports for servers of tests and benchmarks: nobody has them, and nobody is given them by the kernel."""

import os
import socket

import pytest

from rocketeer.config import ports
from rocketeer.errors import ConfigError


class Dice:
    def __init__(self, *bases: int) -> None:
        self._bases = list(bases)

    def randrange(self, *_: int) -> int:
        return self._bases.pop(0) if len(self._bases) > 1 else self._bases[0]


@pytest.mark.parametrize("neighbour", [0, 2, 4, 5], ids=["name server", "VIP", "broker", "HA"])
def test_a_place_where_somebody_listens_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, neighbour: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        base = taken.getsockname()[1] - neighbour
        free, _ = ports.free_ports()
        os.close(ports._reserved.pop())
        monkeypatch.setattr(ports, "_dice", Dice(base, free))
        assert ports.free_ports() == (free, free + 4)
        monkeypatch.setattr(ports, "_dice", Dice(base))
        with pytest.raises(ConfigError, match="no free ports"):
            ports.free_ports()


def test_a_place_is_given_once_although_nobody_listens_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = ports.free_ports()
    second, _ = ports.free_ports()
    os.close(ports._reserved.pop())
    monkeypatch.setattr(ports, "_dice", Dice(first, second))
    assert ports.free_ports() == (second, second + 4)
