"""Laws of work in threads: a caller that is cancelled ends when the work has ended."""

import asyncio
from threading import Event

import pytest

from rocketeer.threads import finish_in_thread


async def test_the_result_or_the_error_is_the_works() -> None:
    assert await finish_in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await finish_in_thread(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_who_is_cancelled_ends_when_the_work_has_ended(fails: bool) -> None:
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
