"""Metrics of a name server for Prometheus (metricsExporterType=PROM): who is registered, how long requests took."""

import socket

from rocketeer.config import MetricsExporter, NamesrvConfig
from rocketeer.nameserver.route_table import RouteTable
from rocketeer.observe import families as f
from rocketeer.observe.counters import Counters
from rocketeer.observe.exposition import MetricsBody, MetricsPage
from rocketeer.observe.http import MetricsServer
from rocketeer.observe.process import process_figures
from rocketeer.observe.rpc import add_rpc
from rocketeer.remoting.slices import in_slices
from rocketeer.security.tls import ReloadingContext
from rocketeer.steps import Steps


def metrics_server(
    config: NamesrvConfig, routes: RouteTable, counters: Counters, tls: ReloadingContext
) -> MetricsServer | None:
    """To be started and stopped with the name server; None when nobody asked for it."""
    if config.metrics_exporter is not MetricsExporter.PROM:
        return None
    process = process_figures()
    labels = {"node_type": "nameserver", "node_id": f"{socket.gethostname()}:{config.server.listen_port}"}

    def steps() -> Steps[MetricsBody]:
        page = MetricsPage(labels)
        page.declare(f.NAMESERVER_FAMILIES)
        for cluster, count in routes.address_counts().items():
            page.add(f.NAMESERVER_BROKERS, count, page.labels(cluster=cluster))
        page.add(f.TOPIC_NUMBER, len((yield from routes.topics())))
        yield from add_rpc(page, counters)
        page.add_behind(process())
        return (yield from page.body())

    return MetricsServer(
        config.metrics_host,
        config.metrics_port,
        {"/metrics": lambda: in_slices(steps())},
        tls=tls.context,
        plain=tls.takes_plain,
    )
