"""What all pulls of a query have in common, and the request of one of them."""

from dataclasses import dataclass, field
from typing import Final

from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.pull import PullSettings, pull_request
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID
from rocketeer.model.subscription import SUB_ALL, TAG, Subscription
from rocketeer.protocol.command import Command
from rocketeer.spark.protection import Protection
from rocketeer.spark.source.options import SourceOptions

DEFAULT_GROUP: Final = "TOOLS_CONSUMER"
"""Exists in every broker, also where groups must be made by hand."""
CAPPED_COUNT: Final = 32


def addresses_to_read(routes: RouteCache, queue: MessageQueue, read_from: str) -> list[str]:
    """Where a queue's messages are, in the order to try: slaves (in turn by queues) before the master, or the
    master alone while there is one. Empty when nobody of the broker's name is known."""
    addresses = routes.brokers().get(queue.broker_name, {})
    slaves = [addresses[number] for number in sorted(addresses) if number != MASTER_ID]
    master = [addresses[MASTER_ID]] if MASTER_ID in addresses else []
    if read_from == "slave" or not master:
        turn = queue.queue_id % len(slaves) if slaves else 0
        return slaves[turn:] + slaves[:turn] + master
    return master


@dataclass(frozen=True, slots=True)
class PullTerms:
    """What all pulls of a query have in common."""

    settings: PullSettings
    kind: str
    expression: str
    timeout_s: float
    """Time limit of one request."""
    outage_s: float
    """How long a broker that does not answer is waited for."""
    first_pause_s: float
    bulk_bytes: int | None
    """None: never ask for more than RocketMQ's cap."""
    fail_on_data_loss: bool
    nameserver: str
    read_from: str
    protection: Protection = field(default_factory=Protection)

    @staticmethod
    def of(options: SourceOptions) -> "PullTerms":
        kind, expression = options.expression
        return PullTerms(
            PullSettings(options.group or DEFAULT_GROUP, hold_s=0.0),
            kind,
            expression,
            options.request_timeout_ms / 1000,
            options.fetch_timeout_ms / 1000,
            options.fetch_retry_interval_ms / 1000,
            options.fetch_bytes,
            options.fail_on_data_loss,
            options.nameserver or "",
            options.read_from,
            options.protection,
        )

    @property
    def is_filtered(self) -> bool:
        return self.kind != TAG or self.expression != SUB_ALL

    def request(
        self, queue: MessageQueue, offset: QueueOffset, count: int, *, bulk_bytes: int | None = None
    ) -> Command:
        """Not held by the broker when nothing is there; the expression travels along, so no heartbeat is needed."""
        wanted = Subscription(queue.topic, self.expression, self.kind)
        return pull_request(self.settings, queue, offset, wanted, max_count=count, bulk_bytes=bulk_bytes)
