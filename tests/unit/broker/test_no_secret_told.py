"""A session full of failures, and then: no secret in any log, answer, page of metrics, or listing of settings."""

import asyncio
import logging
import urllib.request
from pathlib import Path

import pytest
import yaml

from rocketeer.clock import SystemClock
from rocketeer.config import MetricsExporter
from rocketeer.config.ports import free_ports
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.remoting.client import RemotingClient
from rocketeer.security.signature import SIGNATURE, Signer
from support.broker import broker_at
from support.pairs import ha_address, slave_at, until

SECRETS = {
    "account": "s3cret-of-the-admin",
    "second": "s3cret-to-come",
    "wrong": "s3cret-that-is-wrong",
    "new": "s3cret-by-the-wire",
    "peers": "s3cret-among-brokers",
    "stranger": "s3cret-of-a-strange-broker",
}


def signer(key: str, secret: str) -> Signer:
    return Signer(key, secret, SystemClock().now_ms)


async def test_no_secret_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    conf = tmp_path / "conf"
    conf.mkdir()
    accounts = [
        {
            "accessKey": "admin1234",
            "secretKey": SECRETS["account"],
            "secondarySecretKey": SECRETS["second"],
            "admin": True,
        }
    ]
    file = conf / "plain_acl.yml"
    file.write_text(yaml.safe_dump({"accounts": accounts}))
    for name in ("peers", "stranger"):
        (tmp_path / name).write_text(SECRETS[name])
    port = free_ports()[0]
    answers: list[Command] = []
    async with broker_at(
        tmp_path / "store",
        broker={"acl_enable": True, "metrics_exporter": MetricsExporter.PROM, "metrics_port": port},
        server={"acl_conf_dir": conf, "peer_secret_file": tmp_path / "peers"},
    ) as broker:
        for who in (signer("admin1234", SECRETS["wrong"]), signer("stranger1", SECRETS["account"])):
            async with RemotingClient(sign=who.signed) as client:
                for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.GET_BROKER_CONFIG, 50, 99_999):
                    answers.append(await client.invoke(broker.address, request(code, {"b": "T"}), 20))
        async with RemotingClient(sign=signer("admin1234", SECRETS["second"]).signed) as admin:
            for fields in (
                {"accessKey": "x", "secretKey": SECRETS["new"]},
                {"accessKey": "newuser12", "secretKey": SECRETS["new"], "topicPerms": "no permission"},
            ):
                failed = await admin.invoke(broker.address, request(50, fields), 20)
                assert failed.code != ResponseCode.SUCCESS
                answers.append(failed)
            settings = await admin.invoke(broker.address, request(RequestCode.GET_BROKER_CONFIG), 20)
            runtime = await admin.invoke(broker.address, request(RequestCode.GET_BROKER_RUNTIME_INFO), 20)
            assert settings.code == runtime.code == ResponseCode.SUCCESS
            answers += [settings, runtime]
            replayed = request(RequestCode.GET_ALL_TOPIC_CONFIG)
            replayed.ext = signer("admin1234", SECRETS["account"]).signed({}, b"")
            async with RemotingClient() as stranger:
                answers += [await stranger.invoke(broker.address, replayed, 20) for _ in range(2)]
                replayed.ext[SIGNATURE] = "A" * 100_000
                answers.append(await stranger.invoke(broker.address, replayed, 20))
        file.write_text(f"accounts:\n- accessKey: admin1234\n  secretKey: {SECRETS['account']}: [\n")
        await until(lambda: "acl file not taken" in caplog.text, what="the broken file is named")
        async with slave_at(
            tmp_path / "s", ha_address(broker), server={"peer_secret_file": tmp_path / "stranger"}
        ):
            await until(lambda: "does not know the secret" in caplog.text, what="the slave is refused")
        url = f"http://127.0.0.1:{port}/metrics"
        page = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=20).read().decode())
    told = "\n".join([caplog.text, page, *(f"{each.remark} {each.ext} {each.body!r}" for each in answers)])
    assert "plain_acl.yml:3" in told, "a line is named"
    assert [name for name, secret in SECRETS.items() if secret in told] == []
