"""Requests that wait until all rows of a task are known to be good: in memory, then in a file without a name."""

import pickle
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self

from rocketeer.spark.sink.requests import Request


class Spool:
    """A FIFO queue of requests, read once; beyond `memory_bytes` of bodies it spills to a temporary file (TMPDIR)."""

    def __init__(self, memory_bytes: int) -> None:
        self._room = memory_bytes
        self._held: list[Request] = []
        self._file: IO[bytes] | None = None
        self._in_file = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, request: Request) -> None:
        if self._file is None and len(request.body) <= self._room:
            self._room -= len(request.body)
            self._held.append(request)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="rocketeer-sink-")  # noqa: SIM115 closed with the spool
        pickle.dump(request, self._file, pickle.HIGHEST_PROTOCOL)
        self._in_file += 1

    def take(self) -> Iterator[Request]:
        self._held.reverse()
        while self._held:
            yield self._held.pop()
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._in_file):
                request: Request = pickle.load(self._file)  # noqa: S301 we wrote it
                yield request
