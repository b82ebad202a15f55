"""Who gets through at a name server that asks for accounts: every request code x every kind of account."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from rocketeer.clock import SystemClock
from rocketeer.config import NamesrvConfig, ServerConfig
from rocketeer.nameserver.server import NameServer
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.remoting.client import RemotingClient
from rocketeer.security.rules import NAMESERVER_RULES
from rocketeer.security.signature import Signer

ACCOUNTS = [
    {
        "accessKey": "somebody1",
        "secretKey": "secret123",
        "defaultTopicPerm": "PUB|SUB",
        "defaultGroupPerm": "SUB",
    },
    {"accessKey": "admin1234", "secretKey": "secret123", "admin": True},
    {"accessKey": "white1234", "secretKey": "secret123", "whiteRemoteAddress": "127.0.0.1"},
]
SIGNED_IN = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_KV_CONFIG,
}


@asynccontextmanager
async def guarded(folder: Path, *, open_routes: bool) -> AsyncIterator[str]:
    conf = folder / "conf"
    conf.mkdir()
    path = conf / "plain_acl.yml"
    path.write_text(yaml.safe_dump({"accounts": ACCOUNTS}))
    path.chmod(0o600)
    server = NameServer(
        NamesrvConfig(
            kv_config_path=folder / "kv.json",
            config_path=folder / "namesrv.properties",
            acl_enable=True,
            acl_open_routes=open_routes,
            server=ServerConfig(bind_host="127.0.0.1", listen_port=0, acl_conf_dir=conf),
        )
    )
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


async def is_refused(address: str, code: int, signer: Signer | None) -> bool:
    fields = {"topic": "T", "namespace": "N", "key": "K", "value": "V", "brokerName": "b", "cluster": "c"}
    async with RemotingClient(sign=None if signer is None else signer.signed) as client:
        return "AclException" in ((await client.invoke(address, request(code, fields), 20)).remark or "")


@pytest.mark.parametrize("open_routes", [True, False])
async def test_every_code_asks_for_what_its_rule_says(tmp_path: Path, open_routes: bool) -> None:
    def by(key: str, secret: str = "secret123") -> Signer:
        return Signer(key, secret, SystemClock().now_ms)

    wrong: list[str] = []
    async with guarded(tmp_path, open_routes=open_routes) as address:
        for code in NAMESERVER_RULES:
            is_open = open_routes and code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            passes = {
                "nobody": (None, is_open),
                "wrong secret": (by("somebody1", "wrong-one"), is_open),
                "unknown key": (by(f"stranger{code}"), is_open),
                "somebody": (by("somebody1"), code in SIGNED_IN),
                "admin": (by("admin1234"), True),
                "white": (by("white1234", "wrong-one"), True),
            }
            for kind, (signer, expected) in passes.items():
                if await is_refused(address, code, signer) == expected:
                    wrong.append(f"{code} {kind}")
    assert wrong == []
