"""What every admin plan is given: how to find brokers, how long to wait, what time it is; and where it comes from."""

from collections.abc import Sequence
from dataclasses import dataclass

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.brokers import Cluster
from rocketeer.client.secure import connection_security
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed
from rocketeer.security.tls import TlsConfig

NOT_RUNNING = "this Admin is not running: use it in a (async) with block, or start() it first"


@dataclass(frozen=True, slots=True)
class AdminContext:
    """One Admin's view; plans read it and keep nothing but routes in it."""

    nameservers: NameServers
    routes: RouteCache
    clock: Clock
    timeout_s: float

    @property
    def cluster(self) -> Cluster:
        """As the clients' plans want it."""
        return Cluster(self.routes, self.nameservers, self.timeout_s)


class AdminBase:
    """What `Admin` is told, for threads and for asyncio alike, and its context while it runs."""

    def __init__(
        self,
        nameserver: str | Sequence[str] | None = None,
        *,
        timeout_s: float = 5.0,
        access_key: str | None = None,
        secret_key: str | None = None,
        tls: bool | TlsConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Account and TLS as every client has them; without them the environment's (`rocketeer.client.secure`)."""
        self._nameserver = nameserver
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._security = connection_security(access_key, secret_key, tls, now_ms=self._clock.now_ms)
        self._context: AdminContext | None = None

    def _open_context(self, nameservers: Sequence[str]) -> None:
        self._context = AdminContext(NameServers(nameservers), RouteCache(), self._clock, self._timeout_s)

    def context(self) -> AdminContext:
        """What plans are given; for plans of your own."""
        if self._context is None:
            raise ClientClosed(NOT_RUNNING)
        return self._context
