"""Metrics for Prometheus (metricsExporterType=PROM): two pages, made of counters, tables and queues' ends."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.feature import Feature, Periodic
from rocketeer.broker.features.metrics.classic import ClassicPage
from rocketeer.broker.features.metrics.lag import LagReader
from rocketeer.broker.features.metrics.modern import ModernPage
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, MetricsExporter
from rocketeer.observe.exposition import MetricsBody, MetricsPage
from rocketeer.observe.http import MetricsServer
from rocketeer.observe.process import process_figures
from rocketeer.observe.recorder import Recorder
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.security.tls import ReloadingContext
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

FORGET_S = 10.0

PAGE = "/metrics"
EXPORTER_PAGE = "/metrics/exporter"


def metrics_feature(
    *,
    config: BrokerConfig,
    recorder: Recorder,
    store: MessageStore,
    topics: TopicTable,
    groups: ConsumerGroupTable,
    offsets: ConsumerOffsets,
    clients: ClientTable[Connection],
    permission: Callable[[], int],
    runtime: Callable[[], Mapping[str, str]],
    clock: Clock,
    address: str,
    others: Iterable[Callable[[MetricsPage], Steps[None]]],
    tls: ReloadingContext,
) -> Feature:
    """`runtime` tells the broker's runtime info (28); `others` are what features add to the page."""

    def forget_what_is_gone() -> Steps[None]:
        """Series of deleted topics and groups go with them."""
        return recorder.counters.forget(
            lambda topic, group: topics.get(topic) is None or bool(group and groups.get(group) is None)
        )

    def lag_reader() -> LagReader:
        return LagReader(offsets, topics, store.read_queues, store.store_ms_at, recorder.counters)

    forgetting = Periodic(
        "forget figures of what is gone", FORGET_S, lambda: run_sliced(forget_what_is_gone())
    )
    if config.metrics_exporter is not MetricsExporter.PROM:
        return Feature("metrics", services=(forgetting,))
    process = process_figures()

    def add_process(page: MetricsPage) -> Steps[None]:
        page.add_behind(process())
        yield

    modern = ModernPage(
        labels={"cluster": config.cluster_name, "node_type": "broker", "node_id": config.broker_name},
        recorder=recorder,
        lags=lag_reader(),
        store=store,
        store_folder=str(store.config.store_path),
        topics=topics,
        groups=groups,
        clients=clients,
        permission=permission,
        clock=clock,
        lag_per_queue=config.metrics_lag_per_queue,
        others=(*others, add_process),
    )
    classic = ClassicPage(
        cluster=config.cluster_name,
        broker_name=config.broker_name,
        address=address,
        recorder=recorder,
        lags=lag_reader(),
        store=store,
        log_folder=str(store.config.commit_log_path),
        topics=topics,
        clients=clients,
        runtime=runtime,
        clock=clock,
    )

    def made_by(steps: Callable[[], Steps[MetricsBody]]) -> Callable[[], Awaitable[MetricsBody]]:
        def make() -> Steps[MetricsBody]:
            yield from forget_what_is_gone()
            yield from recorder.catch_up()
            return (yield from steps())

        return lambda: in_slices(make())

    pages = {PAGE: made_by(modern.steps), EXPORTER_PAGE: made_by(classic.steps)}
    return Feature(
        "metrics",
        runners=(
            MetricsServer(
                config.metrics_host, config.metrics_port, pages, tls=tls.context, plain=tls.takes_plain
            ),
        ),
        services=(forgetting,),
    )
