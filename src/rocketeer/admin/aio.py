"""`rocketeer.aio.Admin`: what an operator asks and changes, for asyncio.

    from rocketeer.aio import Admin

    async with Admin("127.0.0.1:9876") as admin:
        print(await admin.topics())

The methods are those of `rocketeer.Admin`, to await.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rocketeer.admin.base import AdminBase
from rocketeer.client import discovery
from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.lifetime import ContextManagedAsync
from rocketeer.client.plans.effects import Plan
from rocketeer.remoting.client import RemotingClient

T = TypeVar("T")


class Admin(AdminBase, ContextManagedAsync):
    _remoting: RemotingClient | None = None
    _driver: AsyncDriver | None = None
    _reader: ThreadPoolExecutor | None = None

    async def start(self) -> None:
        if self._driver is None:
            self._open_context(await asyncio.to_thread(discovery.discover, self._nameserver))
            self._remoting = RemotingClient(sign=self._security.sign, tls=self._security.tls)
            # One: answers come from anybody who registered as a broker, and threads keep the loop waiting, too.
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="rocketeer-admin-reader")
            self._driver = AsyncDriver(self._remoting, executor=self._reader)

    async def close(self) -> None:
        """Close the connections."""
        remoting, self._remoting, self._driver, self._context = self._remoting, None, None, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.shutdown(wait=False, cancel_futures=True)
        if remoting is not None:
            remoting.close()
            await remoting.wait_closed()

    async def run(self, plan: Plan[T]) -> T:
        """Run a plan and await its result."""
        return await self._running(self._driver).run(plan)
