"""A member of a group inside the test's own process, so that its disk can fail: `with MemberInThread(member): ...`."""

import asyncio
import threading
from typing import Self

from rocketeer.bench.groups import MemberProcess
from rocketeer.broker.group.member import ReplicaGroupMember
from rocketeer.clock import SystemClock
from rocketeer.config import ServerRole, read_config

START_S = 60.0


class MemberInThread(threading.Thread):
    """Runs what the process of a `MemberProcess` would run, in a loop of its own."""

    def __init__(self, member: MemberProcess) -> None:
        super().__init__(name=f"member {member.number}", daemon=True)
        self._conf = member.write_conf()
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._began = threading.Event()
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        assert self._began.wait(START_S)
        assert self._failure is None, self._failure
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self.join(START_S)
        assert self._failure is None, self._failure

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._began.set()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        settings = read_config(self._conf, ServerRole.BROKER)
        member = ReplicaGroupMember(
            settings.broker,
            settings.store,
            settings.server,
            SystemClock(),
            config_path=settings.path,
            extras=settings.extras,
        )
        await member.start()
        self._began.set()
        try:
            await self._end.wait()
        finally:
            await member.stop()
