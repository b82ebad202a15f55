"""`rocketeer.Admin`: what an operator asks and changes, for threads.

    from rocketeer import Admin

    with Admin("127.0.0.1:9876") as admin:
        print(admin.topics())
        print(admin.group_progress("billing").lag)

The methods are in `admin.base`. `rocketeer.aio.Admin` has the same.
"""

from typing import TypeVar

from rocketeer.admin.base import NOT_RUNNING, AdminBase
from rocketeer.client import discovery
from rocketeer.client.lifetime import Started
from rocketeer.client.plans.effects import Plan
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import ClientClosed

T = TypeVar("T")


class Admin(AdminBase, Started):
    """Asks name servers and brokers; threads may share one. Without an address: NAMESRV_ADDR."""

    _driver: BlockingDriver | None = None

    def start(self) -> None:
        """Find the name servers' addresses; connections are made when they are needed."""
        if self._driver is None:
            self._open_context(discovery.discover(self._nameserver))
            self._driver = BlockingDriver(self._security)

    def close(self) -> None:
        driver, self._driver, self._context = self._driver, None, None
        if driver is not None:
            driver.close()

    def run(self, plan: Plan[T]) -> T:
        """Run a plan in the calling thread."""
        if self._driver is None:
            raise ClientClosed(NOT_RUNNING)
        return self._driver.run(plan)
