"""A name server and a broker that ask for accounts and TLS, in this process."""

import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rocketeer import TlsConfig
from rocketeer.config import NamesrvConfig, ServerConfig
from rocketeer.config.properties import properties_text
from rocketeer.nameserver.server import NameServer
from rocketeer.security.certificates import Authority
from support.broker import broker_at

ACCOUNTS = [
    {
        "accessKey": "shopuser1",
        "secretKey": "secret123",
        "topicPerms": ["orders=PUB|SUB"],
        "groupPerms": ["billing=SUB"],
    },
    {
        "accessKey": "sparkuser",
        "secretKey": "hush-hush-spark",
        "defaultTopicPerm": "PUB|SUB",
        "defaultGroupPerm": "SUB",
    },
    {"accessKey": "operator1", "secretKey": "secret123", "admin": True},
]
SHOP = {"access_key": "shopuser1", "secret_key": "secret123"}


@dataclass(frozen=True)
class Secured:
    nameserver: str
    tls: TlsConfig


@asynccontextmanager
async def secured_cluster(
    folder: Path, *, tls_mode: str = "enforcing", open_routes: bool = False
) -> AsyncIterator[Secured]:
    authority = Authority(folder / "ca", days=2, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue("server", ["127.0.0.1"])
    files = {
        "tls.server.certPath": issued.cert,
        "tls.server.keyPath": issued.key,
        "tls.enable": "true",
        "tls.client.trustCertPath": authority.cert,
    }
    (folder / "tls.properties").write_text(properties_text({key: str(path) for key, path in files.items()}))
    conf = folder / "conf"
    conf.mkdir()
    (conf / "plain_acl.yml").write_text(yaml.safe_dump({"accounts": ACCOUNTS}))
    (folder / "broker.yml").write_text("accessKey: operator1\nsecretKey: secret123\n")
    secure: dict[str, Any] = {
        "tls_mode": tls_mode,
        "tls_file": folder / "tls.properties",
        "acl_conf_dir": conf,
    }
    nameserver = NameServer(
        NamesrvConfig(
            kv_config_path=folder / "kv.json",
            config_path=folder / "namesrv.properties",
            acl_enable=True,
            acl_open_routes=open_routes,
            server=ServerConfig(bind_host="127.0.0.1", listen_port=0, **secure),
        )
    )
    await nameserver.start()
    address = f"127.0.0.1:{nameserver.port}"
    try:
        async with broker_at(
            folder / "store",
            broker={"acl_enable": True, "namesrv_addresses": (address,)},
            server={**secure, "credentials_file": folder / "broker.yml"},
        ):
            yield Secured(address, TlsConfig(trust=authority.cert))
    finally:
        await nameserver.stop()
