"""TLS on a broker's port: its three modes, certificates that change, and peers that do not behave."""

import asyncio
import datetime
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketeer.config import MetricsExporter
from rocketeer.config.properties import properties_text
from rocketeer.errors import ConfigError, ConnectFailed, RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import encode, request
from rocketeer.remoting.client import RemotingClient
from rocketeer.security.certificates import Authority, Issued
from rocketeer.security.tls import TlsConfig, TlsMode, client_context, server_tls
from support.broker import BrokerUnderTest, broker_at

NOW = datetime.datetime.now(datetime.UTC)
ASK = request(RequestCode.GET_ALL_TOPIC_CONFIG)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), days=2, now=NOW)


@pytest.fixture(scope="module")
def server(authority: Authority) -> Issued:
    return authority.issue("server", ["127.0.0.1", "localhost"])


@asynccontextmanager
async def tls_broker(
    folder: Path, issued: Issued, mode: str = "permissive", **more: str
) -> AsyncIterator[BrokerUnderTest]:
    settings = folder / "tls.properties"
    lines = {"tls.server.certPath": str(issued.cert), "tls.server.keyPath": str(issued.key), **more}
    settings.write_text(properties_text(lines))
    async with broker_at(folder / "store", server={"tls_mode": mode, "tls_file": settings}) as broker:
        yield broker


def trusting(authority: Authority, **more: object) -> ssl.SSLContext:
    return client_context(TlsConfig(trust=authority.cert, **more))  # type: ignore[arg-type]


async def asked(broker: BrokerUnderTest, tls: ssl.SSLContext | None, address: str | None = None) -> int:
    async with RemotingClient(tls=tls) as client:
        return (await client.invoke(address or broker.address, ASK, 20)).code


async def test_one_port_takes_both_and_the_first_byte_decides(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with tls_broker(tmp_path, server) as broker:
        assert await asked(broker, None) == ResponseCode.SUCCESS
        assert await asked(broker, trusting(authority)) == ResponseCode.SUCCESS


async def test_enforcing_takes_nobody_without_tls(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with tls_broker(tmp_path, server, "enforcing") as broker:
        assert await asked(broker, trusting(authority)) == ResponseCode.SUCCESS
        with pytest.raises(RemotingError):
            await asked(broker, None)


async def test_disabled_takes_nobody_with_tls(tmp_path: Path, authority: Authority, server: Issued) -> None:
    async with tls_broker(tmp_path, server, "disabled") as broker:
        assert await asked(broker, None) == ResponseCode.SUCCESS
        with pytest.raises(ConnectFailed):
            await asked(broker, trusting(authority))


async def test_a_client_looks_at_who_signed_for_which_host_and_until_when(
    tmp_path: Path, authority: Authority, server: Issued, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with tls_broker(tmp_path, server) as broker:
        stranger = Authority(tmp_path_factory.mktemp("other"), days=2, now=NOW)
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await asked(broker, trusting(stranger))
    elsewhere = authority.issue("elsewhere", ["example.org"])
    (tmp_path / "b").mkdir()
    async with tls_broker(tmp_path / "b", elsewhere) as broker:
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await asked(broker, trusting(authority))
        assert await asked(broker, trusting(authority, check_hostname=False)) == ResponseCode.SUCCESS
    old = Authority(tmp_path_factory.mktemp("old"), days=2, now=NOW - datetime.timedelta(days=9))
    (tmp_path / "c").mkdir()
    async with tls_broker(tmp_path / "c", old.issue("expired", ["127.0.0.1"])) as broker:
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await asked(broker, trusting(old))


async def test_mutual_tls_asks_the_client_who_it_is(
    tmp_path: Path, authority: Authority, server: Issued, tmp_path_factory: pytest.TempPathFactory
) -> None:
    more = {"tls.server.need.client.auth": "require", "tls.server.trustCertPath": str(authority.cert)}
    mine = authority.issue("me", [])
    stranger = Authority(tmp_path_factory.mktemp("other"), days=2, now=NOW).issue("me", [])
    async with tls_broker(tmp_path, server, "enforcing", **more) as broker:
        assert await asked(broker, trusting(authority, cert=mine.cert, key=mine.key)) == ResponseCode.SUCCESS
        for tls in (trusting(authority), trusting(authority, cert=stranger.cert, key=stranger.key)):
            with pytest.raises(RemotingError):
                await asked(broker, tls)


async def test_new_certificates_are_shown_without_dropping_connections(
    tmp_path: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = authority.issue("first", ["127.0.0.1"])
    shown = Issued(tmp_path / "cert.pem", tmp_path / "key.pem")
    shutil.copy(first.cert, shown.cert)
    shutil.copy(first.key, shown.key)
    another = Authority(tmp_path_factory.mktemp("another"), days=2, now=NOW)
    second = another.issue("second", ["127.0.0.1"])
    async with tls_broker(tmp_path, shown) as broker, RemotingClient(tls=trusting(authority)) as staying:
        assert (await staying.invoke(broker.address, ASK)).code == ResponseCode.SUCCESS
        shown.cert.write_bytes(b"garbage")
        shutil.copy(second.cert, shown.cert)
        shutil.copy(second.key, shown.key)
        for _ in range(300):
            try:
                assert await asked(broker, trusting(another)) == ResponseCode.SUCCESS
                break
            except ConnectFailed:
                await asyncio.sleep(0.1)
        else:
            pytest.fail("the old certificate is still shown")
        assert (await staying.invoke(broker.address, ASK)).code == ResponseCode.SUCCESS


async def test_a_handshake_that_stalls_and_garbage_behind_a_hello_disturb_nobody(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    async with tls_broker(tmp_path, server) as broker:
        host, _, port = broker.address.rpartition(":")
        stalled = [socket.create_connection((host, int(port))) for _ in range(20)]
        for sock in stalled:
            sock.sendall(b"\x16")
        garbage = socket.create_connection((host, int(port)))
        garbage.sendall(b"\x16" + b"\xff" * 4000)
        assert await asked(broker, trusting(authority)) == ResponseCode.SUCCESS
        assert await asked(broker, None) == ResponseCode.SUCCESS
        for sock in (*stalled, garbage):
            sock.close()


async def test_two_hundred_handshakes_at_once(tmp_path: Path, authority: Authority, server: Issued) -> None:
    async with tls_broker(tmp_path, server, "enforcing") as broker:
        tls = trusting(authority)

        async def one() -> int:
            async with RemotingClient(tls=tls, connect_timeout_s=60) as client:
                return (await client.invoke(broker.address, ASK, 60)).code

        assert set(await asyncio.gather(*[one() for _ in range(200)])) == {ResponseCode.SUCCESS}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
@pytest.mark.parametrize(("version", "works"), [("-tls1_3", True), ("-tls1_2", True), ("-tls1_1", False)])
async def test_openssl_s_client_shakes_hands_and_is_answered(
    tmp_path: Path, authority: Authority, server: Issued, version: str, works: bool
) -> None:
    async with tls_broker(tmp_path, server, "enforcing") as broker:
        process = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", broker.address, "-CAfile", str(authority.cert), "-quiet", version,
            "-verify_return_error", "-verify_ip", "127.0.0.1",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(ASK))
        try:
            answer = await asyncio.wait_for(process.stdout.read(4096), 30)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        assert (b"TBW102" in answer or b'"code":0' in answer) is works


async def test_the_page_of_metrics_comes_with_tls_where_it_is_enforced(
    tmp_path: Path, authority: Authority, server: Issued
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    settings = tmp_path / "tls.properties"
    lines = {"tls.server.certPath": str(server.cert), "tls.server.keyPath": str(server.key)}
    settings.write_text(properties_text(lines))

    def page(scheme: str) -> bytes:
        url = f"{scheme}://127.0.0.1:{port}/metrics"
        context = trusting(authority) if scheme == "https" else None
        with urllib.request.urlopen(url, context=context, timeout=20) as answer:
            return bytes(answer.read())

    for mode, plain in (("permissive", True), ("enforcing", False)):
        metrics = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": port}
        where = {"tls_mode": mode, "tls_file": settings}
        async with broker_at(tmp_path / mode, broker=metrics, server=where):
            assert b"rocketmq_" in await asyncio.to_thread(page, "https")
            if plain:
                assert b"rocketmq_" in await asyncio.to_thread(page, "http")
            else:
                with pytest.raises(OSError, match=r"closed|reset"):
                    await asyncio.to_thread(page, "http")


async def test_only_tls_1_2_and_1_3(tmp_path: Path, authority: Authority, server: Issued) -> None:
    async with tls_broker(tmp_path, server) as broker:
        for version, taken in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
            context = trusting(authority)
            context.minimum_version = context.maximum_version = version
            assert (await asked(broker, context) == ResponseCode.SUCCESS) is taken
        old = trusting(authority)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ConnectFailed):
            await asked(broker, old)


@pytest.mark.parametrize(
    ("mode", "properties", "text"),
    [
        (TlsMode.ENFORCING, {}, "certPath"),
        (TlsMode.PERMISSIVE, {"tls.server.certPath": "/c"}, "go together"),
        (TlsMode.PERMISSIVE, {"tls.server.need.client.auth": "perhaps"}, "perhaps"),
        (TlsMode.PERMISSIVE, {"tls.server.authClient": "true"}, "trustCertPath"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(
    mode: TlsMode, properties: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        server_tls(mode, properties)


def test_a_file_of_no_use_is_named_and_no_secret_is_shown(tmp_path: Path, server: Issued) -> None:
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        client_context(TlsConfig(trust=tmp_path / "missing.pem"))
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"broken\.pem"):
        client_context(TlsConfig(cert=broken, key=server.key, verify=False))
    assert "hush" not in repr(TlsConfig(cert=broken, key_password="hush"))
