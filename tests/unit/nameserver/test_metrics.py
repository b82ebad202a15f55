"""Laws of the name server's metrics."""

import dataclasses
import socket
from pathlib import Path

from rocketeer.config import MetricsExporter, NamesrvConfig, ServerConfig
from rocketeer.nameserver.server import NameServer
from rocketeer.observe.families import NAMESERVER_FAMILIES
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.remoting.client import RemotingClient
from support.broker import broker_at
from support.metrics import scrape


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_brokers_topics_and_requests_are_told(tmp_path: Path) -> None:
    config = NamesrvConfig(
        kv_config_path=tmp_path / "kv.json",
        config_path=tmp_path / "namesrv.properties",
        metrics_exporter=MetricsExporter.PROM,
        metrics_port=free_port(),
        server=ServerConfig(bind_host="127.0.0.1", listen_port=free_port()),
    )
    server = NameServer(config)
    await server.start()
    client = RemotingClient()
    try:
        address = f"127.0.0.1:{server.port}"
        async with broker_at(tmp_path / "store", broker={"namesrv_addresses": (address,)}):
            await client.invoke(address, request(RequestCode.GET_BROKER_CLUSTER_INFO), 20)
            page = await scrape(config.metrics_port)
            assert {family.name for family in NAMESERVER_FAMILIES} <= set(page.families)
            assert page.value("rocketeer_nameserver_brokers", cluster="DefaultCluster") == 1
            assert page.value("rocketmq_topic_number", node_type="nameserver") > 5
            count = "rocketmq_rpc_latency_milliseconds_count"
            assert page.value(count, request_code="get_broker_cluster_info") == 1
            assert page.value(count, request_code="register_broker") >= 1
    finally:
        client.close()
        await server.stop()
    again = NameServer(dataclasses.replace(config, metrics_exporter=MetricsExporter.DISABLE))
    await again.start()
    await again.stop()
