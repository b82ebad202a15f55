"""Laws of work in threads: a caller that is cancelled ends when the work has ended."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from rocketeer.threads import ThreadsInTurn, finish_in_thread


async def test_the_result_or_the_error_is_the_works() -> None:
    assert await finish_in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await finish_in_thread(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_who_is_cancelled_ends_when_the_work_has_ended(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
    begun, may_end = Event(), Event()
    ended: list[str] = []

    def work() -> None:
        begun.set()
        assert may_end.wait(60)
        ended.append("work")
        if fails:
            raise OSError("a full disk")

    async def caller() -> None:
        try:
            await finish_in_thread(work)
        finally:
            ended.append("caller")

    task = asyncio.create_task(caller())
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(3):  # once is not enough to have it go
        task.cancel()
        await asyncio.sleep(0)
    assert ended == []
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work", "caller"]
    assert said == []
    assert ("a full disk" in caplog.text) == fails, "nobody else would hear of it"


async def test_work_that_has_not_begun_is_not_done_for_who_is_cancelled() -> None:
    pool = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    may_end = Event()
    done: list[str] = []
    busy = asyncio.create_task(asyncio.to_thread(may_end.wait, 60))
    task = asyncio.create_task(finish_in_thread(done.append, "work"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    assert await busy
    await asyncio.to_thread(done.append, "next")
    assert done == ["next"]


async def test_in_turn_who_is_cancelled_goes_at_once_and_the_next_work_waits_for_his() -> None:
    threads = ThreadsInTurn()
    begun, may_end = Event(), Event()
    done: list[int] = []

    def slow() -> None:
        begun.set()
        assert may_end.wait(60)
        done.append(1)

    first = asyncio.create_task(threads.run(slow))
    await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    later = [asyncio.create_task(threads.run(done.append, number)) for number in (2, 3)]
    await asyncio.wait(later, timeout=0.1)
    assert done == []
    may_end.set()
    await asyncio.gather(*later)
    assert done == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 1, 0)
    assert await threads.run(divmod, 7, 2) == (3, 1)
