"""`rocketeer.Admin`: what an operator asks and changes, for threads.

    from rocketeer import Admin

    with Admin("127.0.0.1:9876") as admin:
        print(admin.topics())
        print(admin.group_progress("billing").lag)

The methods are in `admin.base`. `rocketeer.aio.Admin` has the same.
"""

from typing import TypeVar

from rocketeer.admin.base import AdminBase
from rocketeer.client import discovery
from rocketeer.client.lifetime import ContextManaged
from rocketeer.client.plans.effects import Plan
from rocketeer.client.sync.driver import BlockingDriver

T = TypeVar("T")


class Admin(AdminBase, ContextManaged):
    _driver: BlockingDriver | None = None

    def start(self) -> None:
        if self._driver is None:
            self._open_context(discovery.discover(self._nameserver))
            self._driver = BlockingDriver(self._security)

    def close(self) -> None:
        """Close the connections; calls of other threads that wait on them get ConnectionLost."""
        driver, self._driver, self._context = self._driver, None, None
        if driver is not None:
            driver.close()

    def run(self, plan: Plan[T]) -> T:
        """Run a plan in the calling thread: one of `rocketeer.admin.plans`, or your own, made with `context()`."""
        return self._running(self._driver).run(plan)
