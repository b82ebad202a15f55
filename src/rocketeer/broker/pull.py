"""Pulling without a frame: who may read what, one read of the store, and when to hold.

A pull is checked once (`prepare`), then tried as often as needed (`attempt`): at once, and again for each wake-up
while it is held.
"""

import logging
from collections import OrderedDict
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.topics import TopicTable
from rocketeer.errors import LogUnreadable, RequestRefused
from rocketeer.filter.tags import tag_matcher, tag_subscription
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.subscription import TAG, BadTagExpression, MessageModel, Subscription
from rocketeer.model.topic import Perm
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.headers.pull import PullMessageHeader
from rocketeer.protocol.texts import FAQ
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.limits import over_limit
from rocketeer.store.filtered import RecordTest
from rocketeer.store.get import Accepts
from rocketeer.store.message_store import Fetched, GetStatus, MessageStore

log = logging.getLogger(__name__)

_READ: Final = int(Perm.READ)  # an IntFlag's own operators are slow
FLAG_COMMIT_OFFSET = 1
FLAG_SUSPEND = 2
FLAG_SUBSCRIPTION = 4

SHORT_CHARS = 128
"""Longest expression that is remembered at little cost."""
LONG_CHARS_MAX = 1 << 18
"""Most characters of all longer expressions that are remembered: each tag takes a hundred bytes."""


_EVERYTHING: Final = (None, None, ())
"""What `_filter` makes of a subscription without a condition."""

TAG_CHARS_MAX: Final = 1 << 14
"""Most characters of all tags of a subscription: each is hashed, which takes long in plain code."""


class PropertyFilters(Protocol):
    """What pulling asks of the feature that filters by properties."""

    retries_filtered: bool
    """Whether messages of a retry topic must match the expression of the topic they came from."""

    def test_of(self, group: str, subscription: Subscription, asked_version: int | None) -> RecordTest:
        """The test of an expression that is no list of tags; RequestRefused when it cannot be used.

        `asked_version` is None when the expression came with the pull itself, not with a heartbeat.
        """
        ...

    def retry_test_of(self, topic: str, group: str) -> RecordTest | None:
        """The test that messages of a retry topic pass; None where there is none."""
        ...

    def born_ms(self, topic: str, group: str) -> int:
        """Since when the group has its expression."""
        ...


class PreparedPull(msgspec.Struct, gc=False):
    """A pull that passed all checks."""

    group: str
    topic: str
    queue_id: int
    offset: QueueOffset
    max_count: int
    accepts: Accepts | None
    large_bytes: int | None = None
    matches: RecordTest | None = None
    near_id: int = 0
    """The broker id this group reads from, and the one to go to when it is far behind."""
    far_id: int = 0
    made_of: tuple[str, ...] = ()
    """What `accepts` and `matches` were made of: those of the same texts are the same."""


_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullService:
    """Checks pulls and tries them."""

    def __init__(
        self,
        store: MessageStore,
        *,
        topics: TopicTable,
        groups: ConsumerGroupTable,
        clients: ClientTable[Connection],
        filters: PropertyFilters,
        broker_ip: str,
        broker_perm: int,
        tags_max: int,
        slave_read_enable: bool,
    ) -> None:
        self._slave_read_enable = slave_read_enable
        self._store = store
        self._tags_max = tags_max
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._filters = filters
        self._broker_ip = broker_ip
        self._broker_perm = broker_perm

    def set_permission(self, broker_perm: int) -> None:
        """What the broker may be used for from now on."""
        self._broker_perm = broker_perm

    def prepare(self, header: PullMessageHeader, remote: str) -> PreparedPull:
        """Every check, in RocketMQ's order and with its texts; RequestRefused when one fails."""
        topic = header.topic
        if not self._broker_perm & _READ:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] pulling message is forbidden"
            )
        group = self._groups.configs.get(header.consumer_group)
        if group is None:
            group = self._groups.get_or_create(header.consumer_group)
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist, {FAQ}",
            )
        if not group.consume_enable:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}"
            )
        config = self._topics.configs.get(topic)
        if config is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {FAQ}"
            )
        if not config.perm & _READ:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden"
            )
        if not 0 <= header.queue_id < config.read_queues:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{header.queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}] consumer:[/{remote}]",
            )
        accepts, matches, made_of = self._filter(header, group.consume_broadcast_enable)
        near_id, far_id = 0, 0
        if self._slave_read_enable:
            near_id, far_id = group.broker_id, group.which_broker_when_consume_slowly
        return PreparedPull(
            header.consumer_group, topic, header.queue_id, QueueOffset(header.queue_offset), header.max_count,
            accepts, header.large_bytes, matches, near_id, far_id, made_of,
        )  # fmt: skip

    def attempt(self, pull: PreparedPull) -> Fetched:
        """One read of the store; RequestRefused when the disk does not give the messages back."""
        try:
            return self._store.get(
                pull.topic, pull.queue_id, pull.offset, pull.max_count, pull.accepts, pull.matches,
                pull.large_bytes,
            )  # fmt: skip
        except LogUnreadable as error:
            log.error("pull failed topic=%s queue=%d offset=%d reason=%s",
                      pull.topic, pull.queue_id, pull.offset, error)  # fmt: skip
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None

    def _filter(
        self, header: PullMessageHeader, broadcast_allowed: bool
    ) -> tuple[Accepts | None, RecordTest | None, tuple[str, ...]]:
        if header.sys_flag & FLAG_SUBSCRIPTION:
            kind = header.expression_type or TAG
            if kind == TAG and not self._filters.retries_filtered:  # the hot path
                expression = header.subscription or ""
                if expression == "*":
                    return _EVERYTHING
                accepts = self._accepts(expression)
                return accepts, None, () if accepts is None else (TAG, expression)
            told = Subscription(header.topic, header.subscription or "", kind)
            return self._tests(header.consumer_group, told, None)
        consumer = self._clients.consumer(header.consumer_group)
        if consumer is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}"
            )
        if not broadcast_allowed and consumer.message_model is MessageModel.BROADCASTING:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way",
            )
        subscription = consumer.subscriptions.get(header.topic)
        if subscription is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}"
            )
        if subscription.version < header.sub_version:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        # From the expression, not from the heartbeat's codes: not every client's are the tags' hashes.
        return self._tests(header.consumer_group, subscription, header.sub_version)

    def _tests(
        self, group: str, subscription: Subscription, asked_version: int | None
    ) -> tuple[Accepts | None, RecordTest | None, tuple[str, ...]]:
        expression = subscription.expression
        if subscription.kind != TAG:
            test = self._filters.test_of(group, subscription, asked_version)
            made_of: tuple[str, ...] = (subscription.kind, expression)
            if asked_version is not None:  # it trusts bits that are the group's, from a time on
                born_ms = self._filters.born_ms(subscription.topic, group)
                made_of = (*made_of, subscription.topic, group, str(born_ms))
            return None, test, made_of
        accepts = self._accepts(expression)
        retry_test = self._filters.retry_test_of(subscription.topic, group)
        if retry_test is None:
            return accepts, None, () if accepts is None else (TAG, expression)
        return accepts, retry_test, (TAG, expression, group)

    def _accepts(self, expression: str) -> Accepts | None:
        most = self._tags_max
        if len(expression) >= 2 * most and expression.count("|") // 2 >= most:
            code = ResponseCode.SUBSCRIPTION_PARSE_FAILED
            raise over_limit("tags of a subscription", "limitSubscriptionTags", most, code)
        return accepts_of(expression)


def outcome_of(pull: PreparedPull, fetched: Fetched) -> tuple[int, bool]:
    """The response code of an attempt, and whether a slave lags: it does not have that offset yet."""
    code: int | None = _CODES.get(fetched.status)
    if code is None:  # the queue is empty or unknown: only offset 0 may wait for its first message
        code = ResponseCode.PULL_OFFSET_MOVED if pull.offset else ResponseCode.PULL_NOT_FOUND
    if code == ResponseCode.PULL_OFFSET_MOVED and fetched.next_offset == pull.offset:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, True
    return code, False


def accepts_of(expression: str) -> Accepts | None:
    """Which tag codes a subscription wants; None for all. The same come with every pull."""
    if expression == "*":
        return None
    if len(expression) <= SHORT_CHARS:
        return _remembered_accepts(expression)
    if len(expression) > TAG_CHARS_MAX:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"the tags of a subscription have {len(expression)} characters, more than {TAG_CHARS_MAX}",
        )
    return _long_ones.accepts(expression)


def _new_accepts(expression: str) -> Accepts | None:
    try:
        return tag_matcher(tag_subscription("", expression))
    except BadTagExpression as error:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from None


_remembered_accepts = lru_cache(maxsize=4096)(_new_accepts)


class _LongExpressions:
    """The long expressions used last, as many as have LONG_CHARS_MAX characters together."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Accepts | None] = OrderedDict()
        self._chars = 0

    def accepts(self, expression: str) -> Accepts | None:
        known = self._known
        if expression in known:
            known.move_to_end(expression)
            return known[expression]
        made = known[expression] = _new_accepts(expression)
        self._chars += len(expression)
        while self._chars > LONG_CHARS_MAX:
            oldest, _ = known.popitem(last=False)
            self._chars -= len(oldest)
        return made


_long_ones = _LongExpressions()
