"""How far delay levels were delivered, as it is saved: what holds for the log on disk, made ready in steps."""

import time
from types import SimpleNamespace
from typing import Any

from rocketeer.broker.features.delay.offsets import STEP, DelayOffsets
from rocketeer.broker.tables import LargeTable
from rocketeer.protocol.bodies.offsets import decode_delay_log_offset, decode_delay_offsets

COUNT = 300_000


def test_very_many_deliveries_that_reach_the_disk_together_are_taken_in_steps() -> None:
    """200,000 that were due within the seconds between two saves held up everybody for 20 to 40 ms."""
    log: Any = SimpleNamespace(max_log_offset=0, flushed_log_offset=0)
    offsets = DelayOffsets(log, save_every_s=10, now_s=time.monotonic)
    for number in range(COUNT):
        log.max_log_offset += 100
        offsets.advance(1 + number % 3, number // 3 + 1)  # type: ignore[arg-type]
    assert decode_delay_offsets(offsets.encode().encode()) == {}, "nothing is on disk yet"
    log.flushed_log_offset = log.max_log_offset - 100 * (STEP // 2)
    assert isinstance(offsets, LargeTable)
    steps = sum(1 for _ in offsets.refresh())
    assert steps == (COUNT - STEP // 2) // STEP
    log.flushed_log_offset = log.max_log_offset - 300
    began_s = time.thread_time()
    text = offsets.encode().encode()
    assert time.thread_time() - began_s < 0.01
    assert decode_delay_log_offset(text) == log.flushed_log_offset
    assert decode_delay_offsets(text) == {1: 99_999, 2: 99_999, 3: 99_999}
