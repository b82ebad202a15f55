"""Who is let in at the HA port, and whom a slave follows: by secret, by certificate, by address."""

import asyncio
import contextlib
import datetime
import logging
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.config.properties import properties_text
from rocketeer.protocol.codes import ResponseCode
from rocketeer.remoting.client import RemotingClient
from rocketeer.replication import master as master_module
from rocketeer.security import peer_socket
from rocketeer.security.certificates import Authority
from rocketeer.security.peer import MAGIC
from rocketeer.security.tls import client_context, client_tls, load_tls_properties
from support.broker import BrokerUnderTest, broker_at
from support.pairs import ha_address, same_logs, slave_at, until

SECRET = "a secret that both of them know"
OTHER = "another secret, of another house"


def secret(folder: Path, *lines: str) -> dict[str, Any]:
    path = folder / f"secret-{abs(hash(lines))}"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return {"peer_secret_file": path}


def certificates(folder: Path, *, mutual: bool) -> dict[str, Any]:
    authority = Authority(folder / "ca", days=2, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue("server", ["127.0.0.1"])
    lines = {
        "tls.server.certPath": issued.cert,
        "tls.server.keyPath": issued.key,
        "tls.enable": "true",
        "tls.client.trustCertPath": authority.cert,
    }
    if mutual:
        lines |= {
            "tls.server.need.client.auth": "require",
            "tls.server.trustCertPath": authority.cert,
            "tls.client.certPath": issued.cert,
            "tls.client.keyPath": issued.key,
        }
    path = folder / "tls.properties"
    path.write_text(properties_text({key: str(value) for key, value in lines.items()}))
    return {"tls_file": path, "tls_mode": "permissive"}


async def fill(master: BrokerUnderTest, count: int = 50, size: int = 4_000) -> None:
    for number in range(count):
        sent = await master.send("T", b"%06d" % number + bytes(size), queue_id=number % 4)
        assert sent.code == ResponseCode.SUCCESS


@contextlib.asynccontextmanager
async def master_at(folder: Path, settings: dict[str, Any]) -> AsyncIterator[BrokerUnderTest]:
    """A master that is asked with TLS, if it has some."""
    async with broker_at(folder, server=settings) as broker:
        config = client_tls(load_tls_properties(settings["tls_file"])) if "tls_file" in settings else None
        async with RemotingClient(tls=None if config is None else client_context(config)) as client:
            yield BrokerUnderTest(broker.address, client)


async def log_is_copied(folder: Path, *, master: dict[str, Any], slave: dict[str, Any]) -> bool:
    """Whether a slave with these settings gets the log of a master with those, before and after it came."""
    async with master_at(folder / "m", master) as broker:
        await fill(broker)
        async with slave_at(folder / "s", ha_address(broker), server=slave):
            await until(lambda: same_logs(folder / "m", folder / "s"), what="equal logs")
            await fill(broker, 10, size=300_000)
            await until(lambda: same_logs(folder / "m", folder / "s"), what="equal logs again")
            return True


async def refusal(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    text: str,
    *,
    master: dict[str, Any],
    slave: dict[str, Any],
) -> None:
    """A slave with these settings does not get the log, and somebody says why."""
    caplog.set_level(logging.INFO)
    async with master_at(folder / "m", master) as broker:
        await fill(broker, 1)
        async with slave_at(folder / "s", ha_address(broker), server=slave):
            await until(lambda: text in caplog.text, what=text)
            assert not same_logs(folder / "m", folder / "s")
    assert SECRET not in caplog.text
    assert OTHER not in caplog.text


async def test_who_knows_the_secret_gets_the_log(tmp_path: Path) -> None:
    known = secret(tmp_path, SECRET)
    assert await log_is_copied(tmp_path, master=known, slave=known)


async def test_two_secrets_are_taken_while_they_are_changed(tmp_path: Path) -> None:
    assert await log_is_copied(
        tmp_path, master=secret(tmp_path, OTHER, SECRET), slave=secret(tmp_path, SECRET)
    )


async def test_a_wrong_secret_gets_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await refusal(
        tmp_path,
        caplog,
        "it does not know the secret",
        master=secret(tmp_path, SECRET),
        slave=secret(tmp_path, OTHER),
    )


async def test_who_does_not_sign_in_gets_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await refusal(tmp_path, caplog, "it does not sign in", master=secret(tmp_path, SECRET), slave={})


async def test_a_slave_follows_no_master_that_does_not_know_its_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await refusal(tmp_path, caplog, "not following the master", master={}, slave=secret(tmp_path, SECRET))


async def test_peers_of_rocketmqs_make_are_let_in_by_address(tmp_path: Path) -> None:
    closed = {**secret(tmp_path, SECRET), "peer_addresses": "127.0.0.*"}
    assert await log_is_copied(tmp_path, master=closed, slave={})


async def test_other_addresses_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listed = {"peer_addresses": "10.1.1.*"}
    await refusal(tmp_path, caplog, "not among peerAddresses", master=listed, slave={})


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
async def test_the_log_is_copied_with_tls_and_a_secret(tmp_path: Path, mode: str) -> None:
    tls = {**certificates(tmp_path, mutual=False), **secret(tmp_path, SECRET), "tls_mode": mode}
    assert await log_is_copied(tmp_path, master=tls, slave=tls)


async def test_a_certificate_is_enough_and_a_stranger_without_one_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mutual = certificates(tmp_path, mutual=True)
    assert await log_is_copied(tmp_path, master=mutual, slave=mutual)
    (tmp_path / "other").mkdir()
    await refusal(tmp_path / "other", caplog, "it does not sign in", master=mutual, slave={})


async def test_a_slave_follows_no_master_whose_certificate_it_does_not_trust(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    await refusal(
        tmp_path,
        caplog,
        "certificate verify failed",
        master=certificates(tmp_path / "one", mutual=False),
        slave=certificates(tmp_path / "two", mutual=False),
    )


async def test_plain_peers_are_refused_where_tls_is_enforced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    enforcing = {**certificates(tmp_path, mutual=False), "tls_mode": "enforcing"}
    await refusal(tmp_path, caplog, "without TLS", master=enforcing, slave={})


async def test_half_sign_ins_are_closed_and_give_their_place_to_whoever_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_socket, "SIGN_IN_S", 1.0)
    monkeypatch.setattr(master_module, "SLAVES_MAX", 3)
    async with broker_at(tmp_path / "m", server=secret(tmp_path, SECRET)) as broker:
        host, _, port = ha_address(broker).rpartition(":")
        half = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        for _, writer in half:
            writer.write(MAGIC)
        await asyncio.sleep(0.1)
        last, last_writer = await asyncio.open_connection(host, int(port))
        last_writer.write(MAGIC)
        assert await asyncio.wait_for(half[0][0].read(), 0.8) == b"", (
            "there are three already: the oldest goes"
        )
        for reader in (half[1][0], half[2][0], last):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        known = secret(tmp_path, SECRET)
        async with slave_at(tmp_path / "s", ha_address(broker), server=known):
            await fill(broker, 3)
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))


async def test_a_recorded_sign_in_is_no_sign_in(tmp_path: Path) -> None:
    """An eavesdropper says again what a slave said."""
    async with broker_at(tmp_path / "m", server=secret(tmp_path, SECRET)) as broker:
        host, _, port = ha_address(broker).rpartition(":")
        said = bytearray()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            up_reader, up_writer = await asyncio.open_connection(host, int(port))

            async def answers() -> None:
                while data := await up_reader.read(4096):
                    writer.write(data)

            task = asyncio.create_task(answers())
            while data := await reader.read(4096):
                said.extend(data)
                up_writer.write(data)
            up_writer.close()
            await task

        tap = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with tap:
            address = f"127.0.0.1:{tap.sockets[0].getsockname()[1]}"
            async with slave_at(tmp_path / "s", address, server=secret(tmp_path, SECRET)):
                await fill(broker, 1)
                await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(bytes(said) + struct.pack(">q", 0))
        heard = b""
        with contextlib.suppress(ConnectionResetError):  # what it said behind its false proof was not read
            while data := await asyncio.wait_for(reader.read(4096), 20):
                heard += data
        assert len(heard) <= 32, "a nonce, and not a byte of the log"
