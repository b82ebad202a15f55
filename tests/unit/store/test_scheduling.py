"""Who gives way to whom on a core; asked of the kernel itself."""

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable

import pytest

from rocketeer.store import threads
from rocketeer.store.scheduling import answer_first, stand_back

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not threads._SETATTR, reason="only where the kernel is asked"
)
GETATTR = {314: 315, 274: 275}


def settings_after(*steps: Callable[[], object]) -> tuple[int, int, int]:
    """Policy, nice value and slice of a thread of its own that did this."""
    found: list[tuple[int, int, int]] = []

    def run() -> None:
        for step in steps:
            step()
        attr = ctypes.create_string_buffer(threads._ATTR.size)
        assert ctypes.CDLL(None).syscall(GETATTR[threads._SETATTR], 0, attr, len(attr), 0) == 0
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
    policy, nice, slice_ns = settings_after(answer_first, stand_back)
    assert (policy, nice) == (os.SCHED_BATCH, os.getpriority(os.PRIO_PROCESS, 0))
    if knows_slices():
        assert slice_ns == 100_000


def test_who_answers_requests_has_short_slices_and_the_usual_policy() -> None:
    policy, nice, slice_ns = settings_after(answer_first)
    assert (policy, nice) == (os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
    if knows_slices():
        assert slice_ns == 100_000


def test_what_somebody_chose_for_the_process_stays() -> None:
    def be_nice() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)

    def be_idle() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    assert settings_after(be_nice, stand_back)[:2] == (os.SCHED_BATCH, 7)
    assert settings_after(be_idle, stand_back)[0] == os.SCHED_IDLE
