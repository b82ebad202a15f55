"""Our clients with accounts and TLS: against a name server and a broker that ask for both."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import rocketeer
from rocketeer import AccessDenied, ConfigError, Message, NoNameServer, aio
from rocketeer.client.secure import connection_security
from rocketeer.clock import SystemClock
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.remoting.blocking import BlockingConnection
from support.secured import SHOP, secured_cluster


async def test_sends_and_consumes_with_an_account_over_tls(tmp_path: Path) -> None:
    async with secured_cluster(tmp_path) as cluster:
        options: dict[str, Any] = {"nameserver": cluster.nameserver, "tls": cluster.tls, **SHOP}
        received: asyncio.Queue[bytes] = asyncio.Queue()
        consumer = aio.PushConsumer("billing", **options)

        @consumer.subscribe("orders")
        async def bill(message: rocketeer.ReceivedMessage) -> None:
            received.put_nowait(message.body)

        def send_by_thread() -> None:
            with rocketeer.Producer("shop", **options) as producer:
                producer.send(Message("orders", b"by thread"))

        async with aio.Producer("shop", **options) as producer:
            await producer.send(Message("orders", b"by loop"))
            await asyncio.to_thread(send_by_thread)
            async with consumer:
                bodies = {await asyncio.wait_for(received.get(), 60) for _ in range(2)}
        assert bodies == {b"by loop", b"by thread"}


async def test_what_an_account_may_not_do_is_one_clear_error_at_once(tmp_path: Path) -> None:
    async with secured_cluster(tmp_path) as cluster:
        options: dict[str, Any] = {"nameserver": cluster.nameserver, "tls": cluster.tls}
        async with aio.Producer("shop", **options, **SHOP) as producer:
            await producer.send(Message("orders", b"x"))
            with pytest.raises(AccessDenied, match="topic:secrets"):
                await producer.send(Message("secrets", b"x"))
        async with aio.Producer(
            "shop", **options, access_key="shopuser1", secret_key="wrong-one"
        ) as producer:
            with pytest.raises(AccessDenied, match="signature failed for accessKey=shopuser1") as caught:
                await producer.send(Message("orders", b"x"))
            assert "wrong-one" not in str(caught.value)
        async with aio.Admin(cluster.nameserver, tls=cluster.tls, **SHOP) as admin:
            with pytest.raises(AccessDenied, match="admin permission"):
                await admin.topics()


async def test_the_environment_names_account_and_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with secured_cluster(tmp_path) as cluster:
        monkeypatch.setenv("ROCKETEER_TLS_CONFIG", str(tmp_path / "tls.properties"))
        monkeypatch.setenv("ROCKETEER_CREDENTIALS", str(tmp_path / "broker.yml"))

        def list_topics() -> None:
            with rocketeer.Admin(cluster.nameserver) as admin:
                admin.topics()

        await asyncio.to_thread(list_topics)


async def test_questions_asked_together_are_signed_one_by_one(tmp_path: Path) -> None:
    """A client for threads asks about all queues of a broker at once."""
    async with secured_cluster(tmp_path) as cluster:
        security = connection_security(**SHOP, tls=cluster.tls, now_ms=SystemClock().now_ms)

        def ask() -> list[int]:
            with BlockingConnection(cluster.nameserver, tls=security.tls, sign=security.sign) as connection:
                commands = [request(RequestCode.GET_BROKER_CLUSTER_INFO) for _ in range(3)]
                return [reply.code for reply in connection.invoke_all(commands)]

        assert await asyncio.to_thread(ask) == [0, 0, 0]


async def test_without_tls_an_enforcing_server_is_no_server(tmp_path: Path) -> None:
    async with (
        secured_cluster(tmp_path) as cluster,
        aio.Producer("shop", nameserver=cluster.nameserver, **SHOP) as producer,
    ):
        with pytest.raises(NoNameServer):
            await producer.send(Message("orders", b"x"))


def test_half_of_an_account_is_refused_and_secrets_are_not_shown() -> None:
    with pytest.raises(ConfigError, match="go together"):
        rocketeer.Admin("127.0.0.1:1", access_key="shopuser1")
    config = rocketeer.ProducerConfig("shop", access_key="shopuser1", secret_key="hush-hush")
    assert "hush-hush" not in repr(config)
    with pytest.raises(ConfigError, match="secret_key") as caught:
        rocketeer.ProducerConfig("shop", secret_key=12345678)  # type: ignore[arg-type]
    assert "12345678" not in str(caught.value)
