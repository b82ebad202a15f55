"""The pull request of a reader in bulk, and what its reply means."""

from dataclasses import dataclass, replace
from typing import Final

from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL, TAG
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, request
from rocketeer.spark.source.options import SourceOptions

DEFAULT_GROUP: Final = "TOOLS_CONSUMER"
"""Exists in every broker, also where groups must be made by hand."""
LARGE: Final = "rocketeerMaxBytes"
"""Our own field: asks for megabytes at once. A broker that understood puts it in its reply."""
CAPPED_COUNT: Final = 32
_FLAG_SUBSCRIPTION: Final = "4"


@dataclass(frozen=True, slots=True)
class PullTerms:
    """What all pulls of a query have in common."""

    group: str
    kind: str
    expression: str
    timeout_s: float
    retries: int
    retry_interval_s: float
    large_bytes: int | None
    """None: never ask for more than RocketMQ's cap."""
    fail_on_data_loss: bool
    nameserver: str

    @staticmethod
    def of(options: SourceOptions) -> "PullTerms":
        kind, expression = options.expression
        return PullTerms(
            options.group or DEFAULT_GROUP,
            kind,
            expression,
            options.fetch_timeout_ms / 1000,
            options.fetch_retries,
            options.fetch_retry_interval_ms / 1000,
            options.fetch_bytes,
            options.fail_on_data_loss,
            options.nameserver or "",
        )

    def unfiltered(self) -> "PullTerms":
        return replace(self, kind=TAG, expression=SUB_ALL)

    @property
    def is_filtered(self) -> bool:
        return self.kind != TAG or self.expression != SUB_ALL


def pull_command(
    terms: PullTerms, queue: MessageQueue, offset: int, count: int, large_bytes: int | None
) -> Command:
    """Not held by the broker when nothing is there; the expression travels along, so no heartbeat is needed."""
    ext = {
        "consumerGroup": terms.group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": _FLAG_SUBSCRIPTION,
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": terms.expression,
        "expressionType": terms.kind,
        "bname": queue.broker_name,
    }
    if large_bytes is not None:
        ext[LARGE] = str(large_bytes)
    return request(RequestCode.PULL_MESSAGE, ext)
