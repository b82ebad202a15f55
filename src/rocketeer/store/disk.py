"""How full is the disk? Asked by retention, through a port that tests replace."""

import logging
import os
from collections.abc import Iterable
from typing import Protocol

log = logging.getLogger(__name__)

UNKNOWN_PERCENT = -1


class DiskGauge(Protocol):
    def __call__(self, path: str) -> int:
        """Used percent of the partition that holds `path`, UNKNOWN_PERCENT if it cannot be told."""


def used_percent(path: str | os.PathLike[str]) -> int:
    """As `df` and RocketMQ count: of what users can have, rounded up. May block: ask from a thread."""
    try:
        stat = os.statvfs(path)
    except OSError as error:
        log.error("disk not measured path=%s error=%s", path, error)
        return UNKNOWN_PERCENT
    return percent_of(stat.f_blocks, stat.f_bfree, stat.f_bavail)


def percent_of(blocks: int, free: int, available: int) -> int:
    """Blocks reserved for root count neither as used nor as free."""
    used = blocks - free
    reachable = used + available
    return -(-used * 100 // reachable) if reachable > 0 else UNKNOWN_PERCENT


def fullest_percent(paths: Iterable[str | os.PathLike[str]]) -> int:
    """Of several folders, possibly on several partitions; UNKNOWN_PERCENT if none can be measured."""
    return max(map(used_percent, paths), default=UNKNOWN_PERCENT)
