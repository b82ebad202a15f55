"""What `rocketeer up` is going to start: decided before anything is opened. Pure."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from rocketeer.cli.preflight import Port
from rocketeer.config import BrokerConfig, NamesrvConfig, ServerConfig, StoreConfig

PORT_STEP = 10
BROKERS_MAX = 26


@dataclass(frozen=True, kw_only=True)
class BrokerPlan:
    """One broker: all that its process has to be told."""

    name: str
    bind_host: str
    host: str
    port: int
    store_path: Path
    namesrv: str

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def ports(self) -> tuple[Port, ...]:
        fast = self.server_config.fast_port
        return (
            Port(self.bind_host, self.port, f"{self.name}, --port"),
            Port(self.bind_host, fast, f"second port of {self.name}, --port minus 2"),
        )

    @property
    def broker_config(self) -> BrokerConfig:
        return BrokerConfig(
            broker_name=self.name, host=self.host, ha_host=self.host, namesrv_addresses=(self.namesrv,)
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
    def from_json(cls, text: str) -> "BrokerPlan":
        fields = json.loads(text)
        return cls(**{**fields, "store_path": Path(fields["store_path"])})


@dataclass(frozen=True, kw_only=True)
class UpPlan:
    """A name server and its brokers; the first broker shares the name server's process."""

    namesrv: NamesrvConfig
    namesrv_address: str
    brokers: tuple[BrokerPlan, ...]

    @property
    def ports(self) -> tuple[Port, ...]:
        server = self.namesrv.server
        first = Port(server.bind_host, server.listen_port, "name server, --namesrv-port")
        return (first, *(port for broker in self.brokers for port in broker.ports))


def plan_up(
    *, brokers: int, store_path: Path, bind_host: str, host: str, port: int, namesrv_port: int
) -> UpPlan:
    """Ports are spaced by 10; the first broker's store is the folder itself, the others live inside it.

    So a store that was made with one broker is still found when there are more.
    """
    assert 1 <= brokers <= BROKERS_MAX, "the command line allows no other number"
    namesrv_address = f"{host}:{namesrv_port}"
    names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
    return UpPlan(
        namesrv=NamesrvConfig(
            kv_config_path=store_path / "namesrv" / "kvConfig.json",
            config_path=store_path / "namesrv" / "namesrv.properties",
            server=ServerConfig(bind_host=bind_host, listen_port=namesrv_port),
        ),
        namesrv_address=namesrv_address,
        brokers=tuple(
            BrokerPlan(
                name=name,
                bind_host=bind_host,
                host=host,
                port=port + PORT_STEP * index,
                store_path=store_path / name if index else store_path,
                namesrv=namesrv_address,
            )
            for index, name in enumerate(names)
        ),
    )
