"""Filtering by properties (SQL92): expressions checked when subscribing, matched at the store; bits at dispatch.

heartbeat -> FilterTable (config/consumerFilter.json) -> pulls that carry no expression of their own
pull with an expression -> compiled once, remembered
stored message -> bits of the groups that want it -> consumequeue_ext (enableCalcFilterBitMap)
"""

from collections.abc import Sequence
from typing import Protocol

from rocketeer.broker.feature import Feature
from rocketeer.broker.features.filtering.bloom_bits import BloomBits
from rocketeer.broker.features.filtering.filter_data import FilterData, FilterTable
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.filter.records import RecordFilter, record_filter
from rocketeer.filter.scan_plain import find_properties
from rocketeer.filter.sql import BadSqlExpression, SqlFilter, sql_filter
from rocketeer.filter.sql_tokens import DEFAULT_BOUNDS, Bounds
from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import RETRY_TOPIC
from rocketeer.model.subscription import SQL92, Subscription
from rocketeer.model.topic import RETRY_PREFIX
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.properties import find_property
from rocketeer.steps import Steps
from rocketeer.store.consume_queue_ext import ExtUnit
from rocketeer.store.filtered import RecordTest
from rocketeer.store.message_store import MessageStore

_RETRY_TOPIC = RETRY_TOPIC.encode()


class FilterLog(Protocol):
    """What computing bloom bits asks of the store."""

    def read(self, offset: LogOffset, size: int) -> memoryview | None: ...


class _Test:
    """A compiled expression as a pull uses it; with the group's data it also trusts bloom bits."""

    __slots__ = ("_data", "matches", "scan", "terms")

    def __init__(self, records: RecordFilter, data: FilterData | None = None) -> None:
        self.terms = records.terms
        self.matches = records.matches
        self.scan = records.scan
        self._data = data

    def may_match(self, unit: ExtUnit) -> bool:
        return self._data is None or self._data.may_match(unit)


class Filtering:
    """What heartbeats, checks (46) and pulls ask about expressions."""

    def __init__(
        self,
        table: FilterTable,
        clock: Clock,
        *,
        enabled: bool,
        retries: bool,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        self.table = table
        self._bits = BloomBits(clock, bits_bytes=table.bloom.bits // 8)
        self._bounds = bounds
        self._enabled = enabled
        self.retries_filtered = retries and enabled

    # --- subscribing -------------------------------------------------------------------------

    def check(self, kind: str, expression: str) -> None:
        """RequestRefused, with the position of the error, for what cannot be used."""
        self._compiled(kind, expression)

    def consumer_seen(self, group: str, subscriptions: Sequence[Subscription]) -> Steps[None]:
        """Register the filters of a heartbeat. A bad expression is refused, but does not affect the group's other
        topics."""
        if not self._enabled:
            return
        bad = yield from self.table.register(group, subscriptions)
        if bad is not None:
            raise _refusal(bad)

    # --- pulling -----------------------------------------------------------------------------

    def test_of(self, group: str, subscription: Subscription, asked_version: int | None) -> RecordTest:
        if asked_version is None:
            return _Test(record_filter(self._compiled(subscription.kind, subscription.expression)))
        data = self.table.get(subscription.topic, group)
        if not self._enabled:
            raise _unsupported(subscription.kind)
        if data is None:
            raise RequestRefused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if data.client_version < asked_version:
            raise RequestRefused(
                ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest"
            )
        return _Test(record_filter(data.compiled), data)

    def retry_test_of(self, topic: str, group: str) -> RecordTest | None:
        """A message on retry must match what the group wants now of the topic it came from."""
        if not self.retries_filtered or not topic.startswith(RETRY_PREFIX):
            return None

        def matches(properties: bytes) -> bool:
            origin = find_property(properties, _RETRY_TOPIC)
            data = None if origin is None else self.table.get(origin.decode("utf-8", "replace"), group)
            return data is None or data.compiled.matches(properties)

        return _Test(RecordFilter(matches, self._bounds.terms // 4))

    def born_ms(self, topic: str, group: str) -> int:
        data = self.table.get(topic, group)
        return 0 if data is None else data.born_ms

    def _compiled(self, kind: str, expression: str) -> SqlFilter:
        if not self._enabled:
            raise _unsupported(kind)
        if kind != SQL92:
            raise _unknown(kind)
        try:
            return sql_filter(expression, self._bounds)
        except BadSqlExpression as error:
            raise _refusal(error) from None

    # --- dispatch ----------------------------------------------------------------------------

    def bits_of(self, entry: DispatchEntry, log: FilterLog) -> bytes:
        """The bloom bits of a message: of all groups, also those away for a while, that want it; empty: any may."""
        groups = self.table.of_topic(entry.topic)
        if not self._bits.has_time_for(groups):
            return b""
        record = log.read(entry.log_offset, entry.size)
        properties = None if record is None else find_properties(record)
        return b"" if properties is None else self._bits.of(groups, properties)


def filtering_feature(filtering: Filtering, store: MessageStore, *, bits: bool) -> Feature:
    """`bits`: units beside the queues say which groups want a message."""
    extension = store.extension

    def write_bits() -> None:
        # Not earlier: recovery knows no filters yet, and units without bits rule nothing out.
        assert extension is not None
        extension.set_filter_bits(lambda entry: filtering.bits_of(entry, store.log))

    return Feature(
        "filtering",
        state=(filtering.table,),
        on_group_gone=(filtering.table.unregister,),
        on_recovered=(write_bits,) if bits and extension is not None else (),
    )


def _unknown(kind: str) -> RequestRefused:
    return RequestRefused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"messages are filtered by TAG or by SQL92, not by {kind:.40}"
    )


def _unsupported(kind: str) -> RequestRefused:
    return RequestRefused(
        ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind:.40}"
    )


def _refusal(error: BadSqlExpression) -> RequestRefused:
    return RequestRefused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
    )
