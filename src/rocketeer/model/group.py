"""Consumer groups as the broker keeps them, and which names are its own."""

from typing import Final

from rocketeer.model.java_types import I32, I64, JavaValue, java

SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
GROUP_BYTES_MAX: Final = 255


class SubscriptionGroup(JavaValue, frozen=True):
    """What a broker knows of a consumer group; the defaults are those of a group made on first use."""

    name: str = java("groupName", "")
    """The group's name."""
    consume_enable: bool = True
    """Whether it may consume at all."""
    consume_from_min_enable: bool = True
    """Kept for other tools; brokers do not look at it."""
    consume_broadcast_enable: bool = True
    """Whether members may consume as BROADCASTING."""
    retry_queues: I32 = java("retryQueueNums", 1)
    """How many queues its retry topic is made with; 0: messages it fails at are not kept for another try."""
    retry_max: I32 = java("retryMaxTimes", 16)
    """After so many tries a message goes to the dead letters."""
    broker_id: I64 = 0
    """Which broker of a name members are told to read from: 0 the master."""
    which_broker_when_consume_slowly: I64 = 1
    """Which one, when they are so far behind that the master would have to read its disk."""
    notify_consumer_ids_changed_enable: bool = True
    """Whether members are told at once when one comes or goes."""


def is_usable_group(group: str) -> bool:
    """Whether a broker can serve it: its retry topic is a folder, its offsets stand under `topic@group`."""
    return group.isprintable() and 0 < len(group.encode()) <= GROUP_BYTES_MAX and not {"/", "@"} & set(group)


def is_system_group(group: str) -> bool:
    """Groups the system itself consumes with."""
    return group.startswith(SYSTEM_GROUP_PREFIX)
