"""Our clients with an account and TLS against Apache's broker that asks for both."""

import threading
from collections.abc import Iterator

import pytest

from rocketeer import (
    AccessDenied,
    Admin,
    ConfigError,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TlsConfig,
)
from rocketeer.bench.protection import protected
from rocketeer.bench.servers import ApacheMissing, ServerCluster, apache_lib
from rocketeer.errors import ConnectFailed, NoNameServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def apache(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ServerCluster, dict[str, str], TlsConfig]]:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("apache")
    with (
        protected(folder, acl=True, tls=True) as protection,
        ServerCluster(
            "apache", folder / "cluster", protection=protection, heap="512m", ready_s=120
        ) as running,
    ):
        assert protection.account is not None
        account = {"access_key": protection.account.access_key, "secret_key": protection.account.secret_key}
        yield running, account, TlsConfig(trust=protection.trust)


Apache = tuple[ServerCluster, dict[str, str], TlsConfig]


def test_sends_and_consumes(apache: Apache) -> None:
    running, account, tls = apache
    bodies: set[bytes] = set()
    done = threading.Event()
    consumer = PushConsumer("billing", nameserver=running.namesrv, tls=tls, **account)

    @consumer.subscribe("orders")
    def bill(message: ReceivedMessage) -> None:
        bodies.add(message.body)
        if len(bodies) == 3:
            done.set()

    with Producer("shop", nameserver=running.namesrv, tls=tls, **account) as producer:
        for number in range(3):
            producer.send(Message("orders", b"%d" % number))
        with consumer:
            assert done.wait(90)
    assert bodies == {b"0", b"1", b"2"}


def test_a_wrong_secret_is_one_clear_error_at_once(apache: Apache) -> None:
    running, account, tls = apache
    wrong = {**account, "secret_key": "wrong-one"}
    with (
        Producer("shop", nameserver=running.namesrv, tls=tls, **wrong) as producer,
        pytest.raises(AccessDenied, match="signature"),
    ):
        producer.send(Message("orders", b"x"))


def test_admin_tasks_are_signed(apache: Apache) -> None:
    running, account, tls = apache
    with Admin(running.namesrv, tls=tls, **account) as admin:
        assert admin.broker_runtime(running.broker)


def test_a_certificate_of_another_authority_is_refused(apache: Apache) -> None:
    running, account, _ = apache
    with (
        Producer("shop", nameserver=running.namesrv, tls=True, **account) as producer,
        pytest.raises((NoNameServer, ConnectFailed, ConfigError), match=r"(?i)certificate"),
    ):
        producer.send(Message("orders", b"x"))
