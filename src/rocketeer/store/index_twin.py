"""The compiled inner loops of the index, where in use; `index_file.py` and `index_slice.py` have the plain ones."""

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketeer.compiled import COMPILED
from rocketeer.record.entry import DispatchEntry


class IndexLoops(Protocol):
    def link_entries(
        self,
        slots: NDArray[np.uint8],
        hashes: NDArray[np.int32],
        log_offsets: NDArray[np.int64],
        store_ms: NDArray[np.int64],
        first: int,
        first_begin_ms: int,
        begin_ms: int,
        /,
    ) -> tuple[bytes, int]: ...

    def fill_slots(
        self,
        slots: NDArray[np.uint8],
        hashes: NDArray[np.int32],
        first: int,
        changed: NDArray[np.uint8],
        slots_at: int,
        /,
    ) -> None: ...

    def newest_in_slots(
        self,
        entries: NDArray[np.uint8],
        first: int,
        before: int,
        log_offset: int,
        slots: NDArray[np.int32],
        /,
    ) -> tuple[int, int]: ...

    def key_columns(self, entries: list[DispatchEntry], /) -> tuple[bytes, bytes, bytes]: ...


compiled: IndexLoops | None = None

if not TYPE_CHECKING and COMPILED:
    from rocketeer.store import _index

    compiled = _index
