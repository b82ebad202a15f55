"""Topics: their configuration, their names' rules, the system's own ones, and namespaces in names."""

import re
from enum import IntFlag
from functools import lru_cache
from typing import Final

from rocketeer.errors import InvalidTopic
from rocketeer.model.group import is_system_group
from rocketeer.model.java_types import I32, JavaValue, java

QUEUES_MAX: Final = 65_535
"""Most queues of one topic: more is a slip of the finger, and every client would hold them all."""
FILTER_TYPES: Final = frozenset({"SINGLE_TAG", "MULTI_TAG"})


class Perm(IntFlag):
    """What a topic's queues (or a whole broker) may be used for."""

    PRIORITY = 8
    READ = 4
    WRITE = 2
    INHERIT = 1


class TopicConfig(JavaValue, frozen=True):
    """A topic as the broker keeps it and the name server learns it."""

    name: str = java("topicName", "")
    """The topic's name."""
    read_queues: I32 = java("readQueueNums", 16)
    """Number of queues that are consumed from, on each broker."""
    write_queues: I32 = java("writeQueueNums", 16)
    """Number of queues that are sent to, on each broker."""
    perm: I32 = Perm.READ | Perm.WRITE
    """What it may be used for: 2 write, 4 read, 6 both."""
    filter_type: str = java("topicFilterType", "SINGLE_TAG")
    """`SINGLE_TAG` or `MULTI_TAG`; the second only marks the stored messages."""
    sys_flag: I32 = java("topicSysFlag", 0)
    """RocketMQ's own bits: whether it is of a unit, and subscribed to by units."""
    order: bool = False
    """Whether its queues are written down at the name servers, so that they stay the same."""

    def __str__(self) -> str:
        """As RocketMQ's error texts and tools show a topic."""
        return (
            f"TopicConfig [topicName={self.name}, readQueueNums={self.read_queues}, "
            f"writeQueueNums={self.write_queues}, perm={perm_text(self.perm)}, "
            f"topicFilterType={self.filter_type}, topicSysFlag={self.sys_flag}, order={str(self.order).lower()}]"
        )


def perm_text(perm: int) -> str:
    """Three letters as the tools show it.

    >>> perm_text(6), perm_text(5)
    ('RW-', 'R-X')
    """
    return (
        ("R" if perm & Perm.READ else "-")
        + ("W" if perm & Perm.WRITE else "-")
        + ("X" if perm & Perm.INHERIT else "-")
    )


# --- the system's own topics --------------------------------------------------------------------

AUTO_CREATE_TOPIC: Final = "TBW102"  # its configuration is the pattern for topics made on first send
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"  # from 5.x: messages that wait for a time of their own

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
WAITING_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
"""In these messages wait for their time: when that is stands in their queue entries, in place of the tag's hash."""
NOT_FOR_CLIENTS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        TIMER_TOPIC,
    }
)


def is_system_topic(topic: str) -> bool:
    """True for the fixed names and the prefix; a broker adds its name, its cluster and the reply topic."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def may_not_be_sent_to(topic: str) -> bool:
    """True for topics only the broker itself writes to."""
    return topic in NOT_FOR_CLIENTS


# --- names --------------------------------------------------------------------------------------

TOPIC_CHARS_MAX: Final = 127
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


@lru_cache(maxsize=1024)  # every message has one, mostly the same
def validate_topic_name(name: str) -> None:
    """Raise InvalidTopic with the text clients know from RocketMQ, and the name."""
    if not name or name.isspace():
        raise InvalidTopic("The specified topic is blank.")
    if _ALLOWED.fullmatch(name) is None:
        raise InvalidTopic(
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    if len(name) > TOPIC_CHARS_MAX:
        raise InvalidTopic("The specified topic is longer than topic max length.")


def check_topic(name: object) -> None:
    """As `validate_topic_name`, for what a user wrote: the text names the value."""
    if not isinstance(name, str):
        raise InvalidTopic(f"a topic is a text, not {name!r:.80}")
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        raise InvalidTopic(f"topic {name!r:.80}: {error}") from None


def retry_topic(group: str) -> str:
    """Where a group's failed messages wait for their next try."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where a group's messages end when all tries failed."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where answers of request-reply calls pass through."""
    return cluster + "_REPLY_TOPIC"


# --- namespaces: `instance%topic`, behind the %RETRY% or %DLQ% prefix if there is one ------------


def _split_prefix(resource: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if resource.startswith(prefix):
            return prefix, resource[len(prefix) :]
    return "", resource


def _is_system_name(resource: str) -> bool:
    return is_system_topic(resource) or is_system_group(resource)


def with_namespace(resource: str, namespace: str | None) -> str:
    """Put a topic or group into a namespace; once is enough, and the system's own names stay outside.

    >>> with_namespace("Orders", "shop"), with_namespace("%RETRY%G", "shop"), with_namespace("shop%A", "shop")
    ('shop%Orders', '%RETRY%shop%G', 'shop%A')
    """
    if not namespace or not resource or _is_system_name(resource):
        return resource
    prefix, name = _split_prefix(resource)
    if name.startswith(namespace + "%"):
        return resource
    return f"{prefix}{namespace}%{name}"


def without_namespace(resource: str, namespace: str | None = None) -> str:
    """Take the namespace off; with `namespace` given, only that one.

    >>> without_namespace("shop%Orders"), without_namespace("%RETRY%shop%G"), without_namespace("shop%A", "x")
    ('Orders', '%RETRY%G', 'shop%A')
    """
    if _is_system_name(resource):
        return resource
    prefix, name = _split_prefix(resource)
    if namespace and not name.startswith(namespace + "%"):
        return resource
    at = name.find("%")
    return prefix + name[at + 1 :] if at > 0 else resource
