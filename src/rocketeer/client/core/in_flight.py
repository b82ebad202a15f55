"""How much may wait for its answer at a time: the count behind the back-pressure of async sends."""


class InFlight:
    """Places and bytes taken. Something larger than all the bytes still passes when it is alone."""

    __slots__ = ("_bytes", "_bytes_max", "_count", "_count_max")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0

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
