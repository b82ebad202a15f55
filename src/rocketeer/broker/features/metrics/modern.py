"""The page `/metrics`: RocketMQ 5's names and labels."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from rocketeer.broker.clients import ClientIdentity, ClientTable
from rocketeer.broker.features.metrics.lag import Lag, LagReader
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.model.group import is_system_group
from rocketeer.model.topic import RETRY_PREFIX
from rocketeer.observe import families as f
from rocketeer.observe.counters import CREATE_BUCKETS_MS, FINISH_BUCKETS_MS
from rocketeer.observe.exposition import MetricsBody, MetricsPage
from rocketeer.observe.recorder import Recorder
from rocketeer.observe.rpc import add_rpc
from rocketeer.observe.stored import SIZE_BUCKETS
from rocketeer.protocol.versions import version_name
from rocketeer.remoting.connection import Connection
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

PROCESSORS: Final = ("pull", "query_message", "client_manager", "heartbeat", "transaction", "admin", "reply")
"""Whose requests never wait here: they are served in the turn of the loop they are read in."""
TEXTS_MAX: Final = 1 << 14
"""Labels that are kept from one page to the next."""


class ModernPage:
    """Makes the page in steps."""

    def __init__(
        self,
        *,
        labels: Mapping[str, str],
        recorder: Recorder,
        lags: LagReader,
        store: MessageStore,
        store_folder: str,
        topics: TopicTable,
        groups: ConsumerGroupTable,
        clients: ClientTable[Connection],
        permission: Callable[[], int],
        clock: Clock,
        lag_per_queue: bool,
        others: Sequence[Callable[[MetricsPage], Steps[None]]],
    ) -> None:
        """`others` add what features tell of themselves."""
        self._labels = labels
        self._recorder = recorder
        self._lags = lags
        self._store = store
        self._store_folder = store_folder
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._permission = permission
        self._clock = clock
        self._lag_per_queue = lag_per_queue
        self._others = others
        self._texts: dict[tuple[str, str], str] = {}
        self._texts_before: dict[tuple[str, str], str] = {}
        """Labels of pairs of topic and group on the page before: most are on the next one, too."""

    def steps(self) -> Steps[MetricsBody]:
        page = MetricsPage(self._labels)
        self._texts_before, self._texts = self._texts, {}
        page.declare(f.BROKER_FAMILIES)
        self._broker(page)
        yield
        self._storage(page)
        yield
        yield from self._topic_figures(page)
        yield from self._group_figures(page)
        yield from self._lags.read(partial(self._lag, page))
        yield from self._connections(page)
        yield from add_rpc(page, self._recorder.counters)
        for other in self._others:
            yield from other(page)
        return (yield from page.body())

    def _broker(self, page: MetricsPage) -> None:
        page.add(f.PROCESSOR_WATERMARK, self._store.waiting_for_disk, page.labels(processor="send"))
        for processor in PROCESSORS:
            page.add(f.PROCESSOR_WATERMARK, 0, page.labels(processor=processor))
        page.add(f.BROKER_PERMISSION, self._permission())
        page.add(f.TOPIC_NUMBER, len(self._topics.configs))
        page.add(f.GROUP_NUMBER, len(self._groups.configs))
        for code, family in ((17, f.TOPIC_CREATE_TIME), (200, f.GROUP_CREATE_TIME)):
            times = self._recorder.counters.create_ms[code]
            page.histogram(family, CREATE_BUCKETS_MS, times.counts, times.sum)

    def _storage(self, page: MetricsPage) -> None:
        store = self._store
        labels = page.labels(storage_type="local", storage_medium="disk")
        disk = os.statvfs(self._store_folder)
        page.add(f.STORAGE_SIZE, (disk.f_blocks - disk.f_bfree) * disk.f_frsize, labels)
        for folder, percent in zip(("commitlog", "consumequeue"), store.disk_used_percent, strict=True):
            if percent >= 0:
                page.add(f.DISK_USED, percent / 100, page.labels(folder=folder))
        page.add(f.FLUSH_BEHIND, max(0, store.max_log_offset - store.flushed_log_offset), labels)
        page.add(f.DISPATCH_BEHIND, store.max_log_offset - store.dispatched_log_offset, labels)
        first_ms = store.first_store_ms()
        if first_ms >= 0:
            page.add(f.RESERVE_TIME, max(0, self._clock.now_ms() - first_ms), labels)

    def _topic_figures(self, page: MetricsPage) -> Steps[None]:
        stored = self._recorder.stored
        counts: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for found in stored.each():
            if found is not None and found[1]:
                topic, count, size = found
                counts[topic] = counts.get(topic, 0) + count
                sizes[topic] = sizes.get(topic, 0) + size
            yield
        for topic, count in counts.items():
            labels = page.labels(
                topic=topic, message_type="normal", is_system=_flag(self._topics.is_system(topic))
            )
            page.add(f.MESSAGES_IN, count, labels)
            page.add(f.THROUGHPUT_IN, sizes[topic], labels)
            yield
        page.histogram(
            f.MESSAGE_SIZE, SIZE_BUCKETS, stored.sizes, stored.sizes_sum, page.labels(message_type="normal")
        )

    def _group_figures(self, page: MetricsPage) -> Steps[None]:
        counters = self._recorder.counters
        for pair in list(counters.gets):
            gets = counters.gets.get(pair)
            if gets is not None:
                labels = self._pair(page, *pair)
                page.add(f.MESSAGES_OUT, gets.messages, labels)
                page.add(f.THROUGHPUT_OUT, gets.bytes, labels)
            yield
        for topic, group in list(counters.dead):
            count = counters.dead.get((topic, group), 0)
            page.add(f.SEND_TO_DLQ, count, page.labels(topic=topic, consumer_group=group))
            yield
        for family, table in ((f.COMMITS, counters.commits), (f.ROLLBACKS, counters.rollbacks)):
            for topic in list(table):
                page.add(family, table.get(topic, 0), page.labels(topic=topic))
                yield
        for topic, times in list(counters.finish_ms.items()):
            page.histogram(
                f.FINISH_LATENCY, FINISH_BUCKETS_MS, times.counts, times.sum, page.labels(topic=topic)
            )
            yield

    def _lag(self, page: MetricsPage, lag: Lag) -> None:
        now_ms = self._clock.now_ms()
        labels = self._pair(page, lag.topic, lag.group)
        page.add(f.LAG_MESSAGES, lag.messages, labels)
        page.add(f.LAG_LATENCY, max(0, now_ms - lag.unconsumed_ms) if lag.unconsumed_ms else 0, labels)
        page.add(f.INFLIGHT, lag.inflight, labels)
        page.add(f.READY, lag.ready, labels)
        page.add(f.QUEUEING_LATENCY, max(0, now_ms - lag.ungot_ms) if lag.ungot_ms else 0, labels)
        if self._lag_per_queue:
            for queue_id, messages in lag.queues.items():
                page.add(f.LAG_MESSAGES_BY_QUEUE, messages, f'{labels},queue_id="{queue_id}"')

    def _pair(self, page: MetricsPage, topic: str, group: str) -> str:
        """The labels of a topic and a group."""
        key = (topic, group)
        text = self._texts.get(key)
        if text is None:
            text = self._texts_before.get(key) or page.labels(
                topic=topic,
                consumer_group=group,
                is_retry=_flag(topic.startswith(RETRY_PREFIX)),
                is_system=_flag(is_system_group(group)),
            )
            if len(self._texts) < TEXTS_MAX:
                self._texts[key] = text
        return text

    def _connections(self, page: MetricsPage) -> Steps[None]:
        producers: Counter[tuple[str, str]] = Counter()
        for members in list(self._clients.producers.values()):
            for member in list(members.values()):
                producers[_kind(member.identity)] += 1
                yield
        for (language, version), count in producers.items():
            labels = page.labels(language=language, version=version, protocol_type="remoting")
            page.add(f.PRODUCER_CONNECTIONS, count, labels)
        for group in list(self._clients.consumers.values()):
            kinds: Counter[tuple[str, str]] = Counter()
            for consumer in list(group.members.values()):
                kinds[_kind(consumer.identity)] += 1
                yield
            for (language, version), count in kinds.items():
                labels = page.labels(
                    consumer_group=group.name,
                    language=language,
                    version=version,
                    consume_mode="push" if "PASSIVELY" in group.consume_type else "pull",
                    protocol_type="remoting",
                    is_system=_flag(is_system_group(group.name)),
                )
                page.add(f.CONSUMER_CONNECTIONS, count, labels)


def _kind(client: ClientIdentity) -> tuple[str, str]:
    """The client's language and version, as label values."""
    return client.language.lower(), version_name(client.version).lower()


def _flag(value: bool) -> str:
    return "true" if value else "false"
