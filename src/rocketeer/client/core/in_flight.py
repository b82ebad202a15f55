"""How much may be under way at a time: the counts behind the back-pressure of async and one-way sends."""

from rocketeer.client.core.config import ProducerConfig


class InFlight:
    """Places and bytes taken. Something larger than all the bytes still passes when it is alone."""

    __slots__ = ("_bytes", "_bytes_max", "_count", "_count_max", "_state")

    def __init__(self, count_max: int, bytes_max: int, state: str = "unanswered") -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0
        self._state = state

    def __str__(self) -> str:
        """For the text of an error."""
        return f"{self._count} sends are {self._state}"

    @property
    def count(self) -> int:
        return self._count

    def try_enter(self, size: int) -> bool:
        """Take a place if there is one."""
        if self._count and (self._count >= self._count_max or self._bytes + size > self._bytes_max):
            return False
        self._count += 1
        self._bytes += size
        return True

    def leave(self, size: int) -> None:
        self._count -= 1
        self._bytes -= size
        assert self._count >= 0, "left more often than entered"


def stalled_s(config: ProducerConfig) -> float:
    """How long those who wait for a place do so while nobody is answered."""
    return config.send_timeout_s if config.place_timeout_s is None else config.place_timeout_s


def oneway_in_flight(config: ProducerConfig) -> InFlight:
    """Nobody answers a one-way send: it is under way until its connection has taken it."""
    return InFlight(config.oneway_in_flight_max, config.in_flight_bytes_max, "waiting for a broker to read")
