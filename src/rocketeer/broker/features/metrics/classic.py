"""The page `/metrics/exporter`: the names and labels of rocketmq-exporter, for the dashboards of RocketMQ 4.

What that one asks of the clients themselves (`rocketmq_client_*`) is not here: a broker does not know it.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.features.metrics.lag import Lag, LagReader
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX, dlq_topic
from rocketeer.observe import families as f
from rocketeer.observe.exposition import MetricsBody, MetricsPage
from rocketeer.observe.recorder import Recorder
from rocketeer.remoting.connection import Connection
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore


class ClassicPage:
    """Makes the page in steps."""

    def __init__(
        self,
        *,
        cluster: str,
        broker_name: str,
        address: str,
        recorder: Recorder,
        lags: LagReader,
        store: MessageStore,
        log_folder: str,
        topics: TopicTable,
        clients: ClientTable[Connection],
        runtime: Callable[[], Mapping[str, str]],
        clock: Clock,
    ) -> None:
        """`runtime` tells the broker's runtime info (28)."""
        self._cluster = cluster
        self._broker_name = broker_name
        self._address = address
        self._recorder = recorder
        self._lags = lags
        self._store = store
        self._log_folder = log_folder
        self._topics = topics
        self._clients = clients
        self._runtime = runtime
        self._clock = clock

    def steps(self) -> Steps[MetricsBody]:
        page = MetricsPage({})
        page.declare(f.EXPORTER_FAMILIES)
        self._broker(page)
        yield
        yield from self._topic_figures(page)
        yield from self._lags.read(partial(self._group, page))
        yield from self._clients_here(page)
        return (yield from page.body())

    def _broker(self, page: MetricsPage) -> None:
        recorder = self._recorder
        told = self._runtime()
        here = page.labels(cluster=self._cluster, brokerIP=self._address, broker=self._broker_name)
        for family, total in ((f.X_BROKER_TPS, "put"), (f.X_BROKER_QPS, "transferred")):
            rate = recorder.rates.over(total, 60)
            if rate is not None:
                page.add(family, rate, here)
        labels = page.labels(
            cluster=self._cluster,
            brokerIP=self._address,
            brokerHost=self._broker_name,
            des=told["brokerVersionDesc"],
            boottime=told["bootTimestamp"],
            broker_version=told["brokerVersion"],
        )
        for key, family in f.X_RUNTIME.items():
            page.add(family, float(told[key]), labels)
        for family, count in zip(f.X_PUT_TIMES, recorder.put_times(), strict=True):
            page.add(family, count, labels)
        for (total, span_s), family in f.X_RATES.items():
            rate = recorder.rates.over(total, span_s)
            if rate is not None:
                page.add(family, rate, labels)
        disk = os.statvfs(self._log_folder)
        page.add(f.X_CAPACITY_TOTAL, disk.f_blocks * disk.f_frsize, labels)
        page.add(f.X_CAPACITY_FREE, disk.f_bavail * disk.f_frsize, labels)
        page.add(f.X_TO_FLUSH, max(0, self._store.max_log_offset - self._store.flushed_log_offset), labels)

    def _topic_figures(self, page: MetricsPage) -> Steps[None]:
        ends: dict[str, int] = {}
        for queue in self._store.queue_table.walk():
            topic = queue.topic
            ends[topic] = ends.get(topic, 0) + self._store.max_queue_offset(topic, queue.queue_id)
            yield
        recorder = self._recorder
        for topic, end in ends.items():
            if self._topics.get(topic) is None:
                continue
            labels = page.labels(cluster=self._cluster, broker=self._broker_name, topic=topic)
            if topic.startswith(RETRY_PREFIX):
                page.add(f.X_RETRY_OFFSET, end, labels)
            elif topic.startswith(DLQ_PREFIX):
                group = topic.removeprefix(DLQ_PREFIX)
                page.add(
                    f.X_DLQ_OFFSET,
                    end,
                    page.labels(cluster=self._cluster, broker=self._broker_name, group=group),
                )
            else:
                page.add(f.X_PRODUCER_OFFSET, end, labels)
                messages, size = yield from recorder.stored.of(topic)
                page.add(f.X_PRODUCER_TPS, recorder.tps_of("TOPIC_PUT_NUMS", topic, messages), labels)
                page.add(f.X_PRODUCER_SIZE, recorder.tps_of("TOPIC_PUT_SIZE", topic, size), labels)
            yield

    def _group(self, page: MetricsPage, lag: Lag) -> None:
        online = self._clients.consumer(lag.group)
        diff_labels = page.labels(
            group=lag.group,
            topic=lag.topic,
            countOfOnlineConsumers=str(0 if online is None else len(online.client_ids())),
            msgModel="1" if online is not None and online.message_model == "BROADCASTING" else "0",
        )
        if lag.topic.startswith(RETRY_PREFIX):
            page.add(f.X_GROUP_RETRY_DIFF, lag.messages, diff_labels)
            page.add(f.X_GROUP_DLQ_DIFF, self._store.max_queue_offset(dlq_topic(lag.group), 0), diff_labels)
            return
        recorder = self._recorder
        labels = page.labels(
            cluster=self._cluster, broker=self._broker_name, topic=lag.topic, group=lag.group
        )
        page.add(f.X_GROUP_DIFF, lag.messages, diff_labels)
        key = f"{lag.topic}@{lag.group}"
        tps = recorder.minute_tps("GROUP_GET_NUMS", key)
        page.add(f.X_CONSUMER_TPS, tps, labels)
        page.add(f.X_GROUP_CONSUME_TPS, tps, labels)
        page.add(f.X_CONSUMER_SIZE, recorder.minute_tps("GROUP_GET_SIZE", key), labels)
        page.add(f.X_CONSUMER_OFFSET, lag.ends, labels)
        page.add(f.X_GROUP_OFFSET, lag.consumed, labels)
        page.add(f.X_SEND_BACK, recorder.minute_tps("SNDBCK_PUT_NUMS", key), labels)
        behind_ms = max(0, self._clock.now_ms() - lag.unconsumed_ms) if lag.unconsumed_ms else 0
        page.add(f.X_GROUP_LATENCY, behind_ms, labels)

    def _clients_here(self, page: MetricsPage) -> Steps[None]:
        for group, members in list(self._clients.producers.items()):
            labels = page.labels(cluster=self._cluster, broker=self._broker_name, group=group)
            page.add(f.X_PRODUCER_COUNT, len(members), labels)
            yield
        for consumers in list(self._clients.consumers.values()):
            addresses = ",".join(sorted(member.connection.remote for member in consumers.members.values()))
            labels = page.labels(caddr=addresses, localaddr=self._address, group=consumers.name)
            page.add(f.X_GROUP_COUNT, len(consumers.client_ids()), labels)
            yield
