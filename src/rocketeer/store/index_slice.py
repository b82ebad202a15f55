"""A slice of dispatched messages as columns, one row for every key: between `Index` and its files."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset


@dataclass(slots=True)
class IndexSlice:
    """Keys on their way into files; kept when the disk is full, so that none is written twice."""

    hashes: NDArray[np.int32]
    log_offsets: NDArray[np.int64]
    store_ms: NDArray[np.int64]
    runs: int
    end_offset: LogOffset
    done: int = 0
