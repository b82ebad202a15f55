"""What `rocketeer up` is going to start: decided before anything is opened. Pure."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketeer.cli.preflight import Port
from rocketeer.config import BrokerConfig, MetricsExporter, NamesrvConfig, ServerConfig, StoreConfig
from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.remoting.address import join_address

PORT_STEP = 10
BROKERS_MAX = 26


@dataclass(frozen=True, kw_only=True)
class BrokerSpec:
    """One broker: all that its process has to be told."""

    name: str
    bind_host: str
    host: str
    port: int
    store_path: Path
    namesrv: str
    metrics_port: int | None = None
    group_etcd: str | None = None
    """Set: a member of a group, with this number among so many."""
    group_member: int = 0
    group_members: int = 0

    @property
    def label(self) -> str:
        return self.name if self.group_etcd is None else f"{self.name} {self.group_member}"

    @property
    def address(self) -> str:
        return join_address(self.host, self.port)

    @property
    def ports(self) -> tuple[Port, ...]:
        fast = self.server_config.fast_port
        metrics = (
            []
            if self.metrics_port is None
            else [Port("127.0.0.1", self.metrics_port, f"metrics of {self.name}")]
        )
        return (
            Port(self.bind_host, self.port, f"{self.name}, --port"),
            Port(self.bind_host, fast, f"second port of {self.name}, --port minus 2"),
            Port(self.bind_host, self.port + 1, f"port for slaves of {self.name}, --port plus 1"),
            *(
                []
                if self.group_etcd is None
                else [Port(self.bind_host, self.port + 2, f"members of {self.name}, --port plus 2")]
            ),
            *metrics,
        )

    @property
    def broker_config(self) -> BrokerConfig:
        config = BrokerConfig(
            broker_name=self.name,
            host=self.host,
            ha_host=self.host,
            namesrv_addresses=(self.namesrv,),
            group=ReplicaGroupConfig(
                etcd=self.group_etcd, member_id=self.group_member, members=self.group_members
            ),
        )
        if self.metrics_port is None:
            return config
        return dataclasses.replace(
            config, metrics_exporter=MetricsExporter.PROM, metrics_port=self.metrics_port
        )

    @property
    def store_config(self) -> StoreConfig:
        return StoreConfig(store_path=self.store_path, ha_port=self.port + 1)

    @property
    def server_config(self) -> ServerConfig:
        return ServerConfig(bind_host=self.bind_host, listen_port=self.port)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "BrokerSpec":
        fields = json.loads(text)
        return cls(**{**fields, "store_path": Path(fields["store_path"])})


@dataclass(frozen=True, kw_only=True)
class EtcdSpec:
    """The etcd of the groups: one by itself, for this machine only."""

    folder: Path
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ports(self) -> tuple[Port, ...]:
        return (
            Port("127.0.0.1", self.port, "etcd, --namesrv-port plus 1"),
            Port("127.0.0.1", self.port + 1, "etcd's second port, --namesrv-port plus 2"),
        )


@dataclass(frozen=True, kw_only=True)
class UpSpec:
    """A name server and its brokers; the first broker shares the name server's process."""

    namesrv: NamesrvConfig
    namesrv_address: str
    brokers: tuple[BrokerSpec, ...]
    etcd: EtcdSpec | None = None

    @property
    def ports(self) -> tuple[Port, ...]:
        server = self.namesrv.server
        first = [Port(server.bind_host, server.listen_port, "name server, --namesrv-port")]
        if self.namesrv.metrics_exporter is MetricsExporter.PROM:
            first.append(Port("127.0.0.1", self.namesrv.metrics_port, "metrics of the name server"))
        own = () if self.etcd is None else self.etcd.ports
        return (*first, *own, *(port for broker in self.brokers for port in broker.ports))


def up_spec(
    *,
    brokers: int,
    replicas: int = 1,
    store_path: Path,
    bind_host: str,
    host: str,
    port: int,
    namesrv_port: int,
    metrics_port: int | None = None,
) -> UpSpec:
    """Ports are spaced by 10; the first broker's store is the folder itself, the others live inside it.
    The name server's metrics are one port behind the first broker's.

    So a store that was made with one broker is still found when there are more.
    """
    assert 1 <= brokers <= BROKERS_MAX, "the command line allows no other number"
    namesrv_address = join_address(host, namesrv_port)
    names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
    etcd = None if replicas == 1 else EtcdSpec(folder=store_path / "etcd", port=namesrv_port + 1)
    members = [(name, number) for name in names for number in range(1, replicas + 1)]
    namesrv_metrics: dict[str, Any] = {}
    if metrics_port is not None:
        namesrv_metrics = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": metrics_port + 1}
    return UpSpec(
        namesrv=NamesrvConfig(
            kv_config_path=store_path / "namesrv" / "kvConfig.json",
            config_path=store_path / "namesrv" / "namesrv.properties",
            server=ServerConfig(bind_host=bind_host, listen_port=namesrv_port),
            **namesrv_metrics,
        ),
        namesrv_address=namesrv_address,
        brokers=tuple(
            BrokerSpec(
                name=name,
                bind_host=bind_host,
                host=host,
                port=port + PORT_STEP * index,
                store_path=_store_of(store_path, name, index, number, replicas),
                namesrv=namesrv_address,
                group_etcd=None if etcd is None else etcd.endpoint,
                group_member=number,
                group_members=replicas,
                metrics_port=None if metrics_port is None else metrics_port + PORT_STEP * index,
            )
            for index, (name, number) in enumerate(members)
        ),
        etcd=etcd,
    )


def _store_of(store_path: Path, name: str, index: int, number: int, replicas: int) -> Path:
    if replicas > 1:
        return store_path / f"{name}-{number}"
    return store_path / name if index else store_path
