"""What every admin plan is given: how to find brokers, how long to wait, what time it is."""

from dataclasses import dataclass

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.clock import Clock


@dataclass(frozen=True, slots=True)
class AdminContext:
    """One Admin's view; plans read it and keep nothing but routes in it."""

    nameservers: NameServers
    routes: RouteCache
    clock: Clock
    timeout_s: float

    @property
    def cluster(self) -> ClusterRoutes:
        """As the clients' plans want it."""
        return ClusterRoutes(self.routes, self.nameservers, self.timeout_s)
