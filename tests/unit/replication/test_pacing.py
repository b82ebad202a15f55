"""A slave that is far behind gets the log as fast as it can, unless the master has no time to spare."""

import threading
import time

from rocketeer.replication.pacing import BUSY_BYTES_PER_S, Pace, loop_busy_s

PIECE_BYTES = 4 << 20


def sent_in_a_second(busy_share: float) -> int:
    """Bytes that go out when each piece takes 10 ms to send, and the loop is that busy all the time."""
    pace, now_s, sent = Pace(), 100.0, 0
    while now_s < 101.0:
        now_s += 0.01
        sent += PIECE_BYTES
        pace.look(now_s, busy_share * now_s)
        now_s += pace.rest_s(now_s, PIECE_BYTES)
    return sent


def test_a_master_with_time_to_spare_holds_nothing_back() -> None:
    assert sent_in_a_second(0.5) == 100 * PIECE_BYTES


def test_a_master_without_sends_so_much_and_no_more() -> None:
    assert 0.8 * BUSY_BYTES_PER_S < sent_in_a_second(1.0) < 1.5 * BUSY_BYTES_PER_S


def test_what_counts_is_the_time_since_the_last_piece() -> None:
    pace = Pace()
    pace.look(100.0, 50.0)
    pace.look(200.0, 150.0)  # busy for long, with nobody to catch up
    assert pace.rest_s(200.0, PIECE_BYTES) == 0
    pace.look(200.1, 150.1)
    assert pace.rest_s(200.1, PIECE_BYTES) > 0
    pace.look(200.2, 150.1)
    assert pace.rest_s(200.2, PIECE_BYTES) == 0


def test_a_thread_that_works_is_busy_and_one_that_waits_is_not() -> None:
    began_s, before_s = time.monotonic(), loop_busy_s()
    while time.monotonic() - began_s < 0.05:
        pass
    assert loop_busy_s() - before_s > 0.02

    def waiting_s() -> float:
        before_s = loop_busy_s()
        threading.Event().wait(0.05)
        return loop_busy_s() - before_s

    # Who has waited waits for a processor next, on a busy machine for longer than that.
    assert any(waiting_s() < 0.04 for _ in range(50))
