"""Which groups filter which topics by which expression: config/consumerFilter.json in memory.

Heartbeats fill it, pulls that rely on the heartbeat read it, dispatch computes bloom bits from it. A group that left
stays for a day, so that its bits go on being computed and a restart of its members costs nothing.
"""

import logging
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from rocketeer.broker.table_text import TableText
from rocketeer.clock import Clock
from rocketeer.filter.bloom import BloomData, BloomFilter, mask_of
from rocketeer.filter.sql import BadSqlExpression, SqlFilter, sql_filter
from rocketeer.filter.sql_tokens import DEFAULT_BOUNDS, Bounds
from rocketeer.model.subscription import SQL92, TAG, Subscription
from rocketeer.protocol.bodies.filters import (
    FilterRecord,
    decode_filters,
    encode_filter,
    encode_filter_entry,
    filters_ends,
    topic_filters_ends,
)
from rocketeer.remoting.limits import busy_limit
from rocketeer.steps import Steps, finish
from rocketeer.store.consume_queue_ext import ExtUnit

log = logging.getLogger(__name__)

FILTER_CHARS = 100
"""What a filter counts for besides its expression and its names."""
LOOKED_AT_ONCE = 256
"""Filters that one step looks at: one topic or group may have all of them."""
PIECE_ENTRIES = 256
"""Filters of a topic that stand in one piece of the text."""
DEAD_AT_LOAD_MS = 30_000
"""A group found in the file is taken to have left so long ago: it is not connected yet."""


@dataclass(slots=True)
class FilterData:
    """One group's filter on one topic."""

    topic: str
    group: str
    expression: str
    compiled: SqlFilter
    born_ms: int
    """Messages stored later have the group's bloom bits, earlier ones do not."""
    client_version: int
    bloom: BloomData
    mask: int
    dead_ms: int = 0

    @property
    def chars(self) -> int:
        return _chars_of(self.topic, self.group, self.expression)

    @property
    def is_dead(self) -> bool:
        return self.dead_ms >= self.born_ms

    def may_match(self, unit: ExtUnit) -> bool:
        """False when the bits beside a queue entry say that the group does not want the message."""
        if unit.store_ms <= self.born_ms or len(unit.filter_bits) * 8 != self.bloom.bits:
            return True  # nobody evaluated the message for this group
        return int.from_bytes(unit.filter_bits, "little") & self.mask == self.mask


def _chars_of(topic: str, group: str, expression: str) -> int:
    return len(topic) + len(group) + len(expression) + FILTER_CHARS


class FilterTable:
    """All filters by topic and group; only expressions that compile are in it."""

    file_name = "consumerFilter.json"

    def __init__(
        self,
        bloom: BloomFilter,
        clock: Clock,
        *,
        keep_dead_ms: int,
        bounds: Bounds = DEFAULT_BOUNDS,
        chars_max: int = 4 << 20,
    ) -> None:
        self._chars_max = chars_max
        self._chars = 0
        """Characters of all expressions and names, and `FILTER_CHARS` for each filter."""
        self._pieces: dict[str, list[bytes]] = {}
        """By topic: what stands for its filters in the file, with commas between two pieces."""
        self._stale: dict[str, int] = {}
        """Topics of which that is to be made anew, with the number of their last change."""
        self._changes = 0
        self.bloom = bloom
        self._bounds = bounds
        self._clock = clock
        self._keep_dead_ms = keep_dead_ms
        self._by_topic: dict[str, dict[str, FilterData]] = {}
        self._by_group: dict[str, dict[str, FilterData]] = {}
        self._dirty = False

    # --- asking ------------------------------------------------------------------------------

    def get(self, topic: str, group: str) -> FilterData | None:
        return self._by_topic.get(topic, {}).get(group)

    def text_of(self, topic: str, group: str) -> str | None:
        """What is known of the group's filter, as JSON; None when it has none."""
        data = self.get(topic, group)
        return None if data is None else encode_filter(self._record_of(data)).decode()

    def may_match(self, topic: str, group: str, unit: ExtUnit) -> bool:
        """Whether the bits beside a queue entry leave it open that the group wants the message."""
        data = self.get(topic, group)
        return data is None or data.may_match(unit)

    def of_topic(self, topic: str) -> Iterable[FilterData]:
        return self._by_topic.get(topic, {}).values()

    def __iter__(self) -> Iterator[FilterData]:
        return (data for groups in self._by_topic.values() for data in groups.values())

    # --- what heartbeats say -----------------------------------------------------------------

    def register(
        self, group: str, subscriptions: Iterable[Subscription]
    ) -> Generator[None, None, BadSqlExpression | None]:
        """Take a group's subscriptions over; the first bad expression, if there is one, for whoever sent it."""
        bad: BadSqlExpression | None = None
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if subscription.kind == SQL92 and not subscription.class_filter:
                try:
                    self._put(group, subscription)
                except BadSqlExpression as error:
                    bad = bad or error
                yield
        for number, data in enumerate(list(self._by_group.get(group, {}).values()), 1):
            # Between two steps another member may want it again, or something else.
            if data.topic not in topics and not data.is_dead and self.get(data.topic, group) is data:
                self._mark_dead(data)
            if number % LOOKED_AT_ONCE == 0:
                yield
        return bad

    def _put(self, group: str, subscription: Subscription) -> None:
        old = self.get(subscription.topic, group)
        if old is not None and old.expression == subscription.expression:
            if old.client_version <= subscription.version:
                if old.client_version != subscription.version or old.is_dead:
                    self._changed(old)
                old.client_version = subscription.version
                old.dead_ms = 0
            return
        if old is not None and old.client_version >= subscription.version:
            sql_filter(
                subscription.expression, self._bounds
            )  # an older member's; a bad one is told so all the same
            return
        try:
            compiled = sql_filter(subscription.expression, self._bounds)
        except BadSqlExpression:
            if old is not None:  # the group's newest wish cannot be met: rather tell than serve an old one
                self._remove(old)
            raise
        others = self._chars - (0 if old is None else old.chars)
        if others + _chars_of(subscription.topic, group, subscription.expression) > self._chars_max:
            raise busy_limit("characters of all groups' expressions", "limitFilterChars", self._chars_max)
        bloom = self.bloom.data(f"{group}#{subscription.topic}")
        self._keep(
            FilterData(
                subscription.topic, group, subscription.expression, compiled, born_ms=self._clock.now_ms(),
                client_version=subscription.version, bloom=bloom, mask=mask_of(bloom),
            )
        )  # fmt: skip
        log.info(
            "filter registered group=%s topic=%s version=%d", group, subscription.topic, subscription.version
        )

    def unregister(self, group: str) -> None:
        """Mark the group's filters as dead: its last member has left."""
        for data in self._by_group.get(group, {}).values():
            if not data.is_dead:
                self._mark_dead(data)

    def _keep(self, data: FilterData) -> None:
        old = self.get(data.topic, data.group)
        if old is not None:
            self._chars -= old.chars
        self._chars += data.chars
        self._changed(data)
        self._by_topic.setdefault(data.topic, {})[data.group] = data
        self._by_group.setdefault(data.group, {})[data.topic] = data

    def _mark_dead(self, data: FilterData) -> None:
        data.dead_ms = max(self._clock.now_ms(), data.born_ms)
        self._changed(data)

    def _changed(self, data: FilterData) -> None:
        self._changes += 1
        self._stale[data.topic] = self._changes
        self._dirty = True

    def _remove(self, data: FilterData) -> None:
        for table, key, inner in (
            (self._by_topic, data.topic, data.group),
            (self._by_group, data.group, data.topic),
        ):
            del table[key][inner]
            if not table[key]:
                del table[key]
        self._chars -= data.chars
        self._changed(data)

    def _expiring(self) -> Steps[None]:
        """Forget groups that left too long ago."""
        now_ms = self._clock.now_ms()
        for topic in list(self._by_topic):
            for number, data in enumerate(list(self.of_topic(topic)), 1):
                if number % LOOKED_AT_ONCE == 0:
                    yield
                # Between two steps the group may come back and want something else, or nothing.
                if self.get(topic, data.group) is not data:
                    continue
                if data.is_dead and now_ms - data.dead_ms >= self._keep_dead_ms:
                    log.info("filter forgotten group=%s topic=%s", data.group, data.topic)
                    self._remove(data)
                    yield
            yield

    # --- the file ----------------------------------------------------------------------------

    def encode(self) -> str:
        finish(self.refresh())
        return self.table_text().whole().decode()

    def table_text(self) -> TableText:
        """The encoded table as pieces, as the last `refresh` made them."""
        begin, end = filters_ends()
        return TableText(begin, list(chain.from_iterable(self._pieces.values())), b",", end)

    def refresh(self) -> Steps[None]:
        """Forget what is to be forgotten and make what has changed of the text, a filter a step."""
        yield from self._expiring()
        yield from self._making()

    def _making(self) -> Steps[None]:
        """Encode the topics that changed, one pass: what changes during it waits for the next, so it always ends."""
        for topic in list(self._stale):
            change = self._stale.get(topic)
            pieces: list[bytes] = []
            entries: list[bytes] = []
            for data in list(self.of_topic(topic)):
                entries.append(encode_filter_entry(self._record_of(data)))
                if len(entries) == PIECE_ENTRIES:
                    pieces.append(b",".join(entries))
                    entries.clear()
                yield
            if entries:
                pieces.append(b",".join(entries))
            if topic not in self._stale:  # somebody else made it meanwhile, of what is newer
                continue
            if pieces:
                topic_begin, topic_end = topic_filters_ends(topic)
                pieces[0] = topic_begin + pieces[0]
                pieces[-1] += topic_end
                self._pieces[topic] = pieces
            else:
                self._pieces.pop(topic, None)
            if self._stale[topic] == change:  # not earlier: this may be broken off
                del self._stale[topic]
            yield

    @staticmethod
    def _record_of(data: FilterData) -> FilterRecord:
        return FilterRecord(
            data.topic, data.group, data.expression, SQL92, data.born_ms, data.dead_ms,
            data.client_version, data.bloom.positions, data.bloom.bits,
        )  # fmt: skip

    def decode(self, text: str) -> None:
        """What was saved. With bloom filters of another size all of it is forgotten: the stored bits mean nothing."""
        now_ms = self._clock.now_ms()
        loaded: list[FilterData] = []
        for record in decode_filters(text.encode()):
            bloom = BloomData(record.positions, record.bits)
            if not self.bloom.is_valid(bloom):
                log.warning(
                    "filters forgotten: the size of the bloom filter changed to bits=%d", self.bloom.bits
                )
                return
            if record.kind in ("", TAG):
                continue
            try:
                compiled = sql_filter(record.expression)
            except BadSqlExpression as error:
                log.error("filter not loaded group=%s topic=%s reason=%s", record.group, record.topic, error)
                continue
            dead_ms = record.dead_ms or max(now_ms - DEAD_AT_LOAD_MS, record.born_ms)
            loaded.append(
                FilterData(
                    record.topic, record.group, record.expression, compiled, record.born_ms, record.client_version,
                    bloom, mask_of(bloom), dead_ms,
                )
            )  # fmt: skip
        self._by_topic, self._by_group, self._chars = {}, {}, 0
        self._pieces.clear()
        for data in loaded:
            self._keep(data)
        self._dirty = False

    def take_dirty(self) -> bool:
        dirty, self._dirty = self._dirty, False
        return dirty
