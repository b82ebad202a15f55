"""How full is the disk? Asked by retention, through a port that tests replace."""

import logging
import os

log = logging.getLogger(__name__)

UNKNOWN_PERCENT = -1


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
