"""Who gives way to whom on a core; asked of the kernel itself."""

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable

import pytest

from rocketeer.store import scheduling
from rocketeer.store.scheduling import use_batch_scheduling, use_latency_scheduling

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not scheduling._SETATTR, reason="only where the kernel is asked"
)
GETATTR = {314: 315, 274: 275}


def settings_after(*steps: Callable[[], object]) -> tuple[int, int, int]:
    """Policy, nice value and slice of a thread of its own that did this."""
    found: list[tuple[int, int, int]] = []

    def run() -> None:
        for step in steps:
            step()
        attr = ctypes.create_string_buffer(scheduling._ATTR.size)
        assert ctypes.CDLL(None).syscall(GETATTR[scheduling._SETATTR], 0, attr, len(attr), 0) == 0
        _, policy, _, nice, _, slice_ns, _, _ = struct.unpack("=IIQiIQQQ", attr.raw)
        found.append((policy, nice, slice_ns))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def knows_slices() -> bool:
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return release >= (6, 12)


def test_threads_of_the_disk_stand_back() -> None:
    policy, nice, slice_ns = settings_after(use_latency_scheduling, use_batch_scheduling)
    assert (policy, nice) == (os.SCHED_BATCH, os.getpriority(os.PRIO_PROCESS, 0))
    if knows_slices():
        assert slice_ns == 100_000


def test_who_answers_requests_has_short_slices_and_the_usual_policy() -> None:
    policy, nice, slice_ns = settings_after(use_latency_scheduling)
    assert (policy, nice) == (os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
    if knows_slices():
        assert slice_ns == 100_000


def test_what_somebody_chose_for_the_process_stays() -> None:
    def be_nice() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)

    def be_idle() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    assert settings_after(be_nice, use_batch_scheduling)[:2] == (os.SCHED_BATCH, 7)
    assert settings_after(be_idle, use_batch_scheduling)[0] == os.SCHED_IDLE
