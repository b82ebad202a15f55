"""Consumer groups as the broker keeps them, and which names are its own."""

from typing import Final

from rocketeer.model.java_types import I32, I64, JavaValue, java

SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
GROUP_BYTES_MAX: Final = 255


class SubscriptionGroup(JavaValue, frozen=True):
    """What a broker knows of a consumer group; the defaults are those of a group made on first use."""

    name: str = java("groupName", "")
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queues: I32 = java("retryQueueNums", 1)
    retry_max: I32 = java("retryMaxTimes", 16)
    broker_id: I64 = 0
    which_broker_when_consume_slowly: I64 = 1
    notify_consumer_ids_changed_enable: bool = True


def is_usable_group(group: str) -> bool:
    """Whether a broker can serve it: its retry topic is a folder, its offsets stand under `topic@group`."""
    return group.isprintable() and 0 < len(group.encode()) <= GROUP_BYTES_MAX and not {"/", "@"} & set(group)


def is_system_group(group: str) -> bool:
    """Groups the system itself consumes with."""
    return group.startswith(SYSTEM_GROUP_PREFIX)
