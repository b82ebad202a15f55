"""Laws of the asyncio client: calls and answers, what peers ask back, closing, families, TLS."""

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from rocketeer.errors import ConnectFailed, ConnectionLost, RequestRefused
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode_frame, encode, reply, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.client import RemotingClient
from support.remoting import ECHO, PUSH_BACK, UNKNOWN, commands, peer, running_server


async def test_every_call_gets_its_own_answer_on_one_connection() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        bodies = [b"%d" % i for i in range(300)]
        answers = await asyncio.gather(*(client.invoke(address, request(ECHO, body=body)) for body in bodies))
        assert [answer.body for answer in answers] == bodies
        assert len(server.connections) == 1


async def test_one_command_may_be_sent_many_times_at_once() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        command = request(ECHO, body=b"same")
        answers = await asyncio.gather(*(client.invoke(address, command) for _ in range(50)))
        assert {answer.body for answer in answers} == {b"same"}
        assert len({answer.opaque for answer in answers}) == 50


async def test_what_is_asked_in_one_turn_of_the_loop_leaves_in_one_write() -> None:
    reads: list[int] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        while data := await reader.read(1 << 20):
            frames = splitter.feed(data)
            reads.append(len(frames))
            writer.write(b"".join(encode(reply(decode_frame(*frame))) for frame in frames))

    async with peer(behave) as address, RemotingClient() as client:
        await client.invoke(address, request(ECHO))
        await asyncio.gather(*(client.invoke(address, request(ECHO)) for _ in range(100)))
    assert reads == [1, 100]


async def test_answers_may_come_in_any_order_and_in_any_pieces() -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: list[Command] = []
        async for command in commands(reader):
            waiting.append(command)
            if len(waiting) == 10:
                stream = b"".join(encode(reply(c, body=c.body)) for c in reversed(waiting))
                for at in range(0, len(stream), 7):
                    writer.write(stream[at : at + 7])
                    await writer.drain()

    async with peer(behave) as address, RemotingClient() as client:
        bodies = [b"%d" % i for i in range(10)]
        answers = await asyncio.gather(*(client.invoke(address, request(ECHO, body=body)) for body in bodies))
    assert [answer.body for answer in answers] == bodies


async def test_an_answer_nobody_waits_for_is_ignored() -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for command in commands(reader):
            stray = reply(command, body=b"stray")
            stray.opaque = 123_456_789
            good = encode(reply(command, body=b"good"))
            writer.write(encode(stray) + good + good)

    async with peer(behave) as address, RemotingClient() as client:
        for _ in range(3):
            assert (await client.invoke(address, request(ECHO))).body == b"good"


async def test_a_oneway_is_marked_and_waits_for_nothing() -> None:
    seen: asyncio.Queue[Command] = asyncio.Queue()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for command in commands(reader):
            seen.put_nowait(command)

    async with peer(behave) as address, RemotingClient() as client:
        await client.oneway(address, request(ECHO, body=b"go"))
        command = await asyncio.wait_for(seen.get(), 60)
    assert command.is_oneway
    assert command.body == b"go"


# --- what peers ask ----------------------------------------------------------------------------------


async def test_requests_of_the_peer_go_to_their_handlers() -> None:
    def plain(command: Command, address: str) -> Command:
        return reply(command, body=command.body + address.encode())

    async def awaited(command: Command, address: str) -> Command:
        await asyncio.sleep(0)
        return reply(command, body=b"awaited")

    def refusing(command: Command, address: str) -> Command:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "not you")

    def broken(command: Command, address: str) -> Command:
        raise ZeroDivisionError("oops")

    handlers = {1: plain, 2: awaited, 3: refusing, 4: broken}
    async with running_server() as server, RemotingClient(handlers=handlers) as client:
        address = f"127.0.0.1:{server.ports[0]}"

        async def ask(code: int) -> Command:
            return await client.invoke(address, request(PUSH_BACK, {"code": str(code)}))

        assert (await ask(1)).body == b"pushed" + address.encode()
        assert (await ask(2)).body == b"awaited"
        refused = await ask(3)
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not you")
        failed = await ask(4)
        assert (failed.code, failed.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: oops")
        unknown = await ask(UNKNOWN)
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert unknown.remark == " request type 999 not supported"
        client.handle(UNKNOWN, plain)
        assert (await ask(UNKNOWN)).body.startswith(b"pushed")


async def test_a_oneway_of_the_peer_is_never_answered() -> None:
    said: list[Command] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode(request(UNKNOWN, oneway=True)) + encode(request(1, oneway=True)))
        async for command in commands(reader):
            said.append(command)
            writer.write(encode(reply(command)))

    handlers = {1: lambda command, address: reply(command)}
    async with peer(behave) as address, RemotingClient(handlers=handlers) as client:
        await client.invoke(address, request(ECHO))
        await client.invoke(address, request(ECHO))
    assert [command.code for command in said] == [ECHO, ECHO]


# --- closing, families, TLS --------------------------------------------------------------------------


async def test_close_lets_what_was_written_leave_and_wakes_the_waiters() -> None:
    seen: list[Command] = []
    done = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for command in commands(reader):
            seen.append(command)
        done.set()

    async with peer(behave) as address:
        client = RemotingClient()
        await client.oneway(address, request(6))
        call = asyncio.create_task(client.invoke(address, request(ECHO), timeout_s=30))
        await asyncio.sleep(0)
        await client.oneway(address, request(7, body=b"last words" * 10_000))
        client.close()
        with pytest.raises(ConnectionLost, match="the client was closed"):
            await call
        await client.wait_closed()
        await asyncio.wait_for(done.wait(), 60)
        assert [command.code for command in seen] == [6, ECHO, 7]
        with pytest.raises(ConnectFailed, match="the client is closed"):
            await client.invoke(address, request(ECHO))


async def test_the_owner_learns_which_connection_was_lost() -> None:
    lost: asyncio.Queue[str] = asyncio.Queue()
    async with RemotingClient() as client:
        client.on_close.append(lost.put_nowait)
        async with running_server() as server:
            address = f"127.0.0.1:{server.ports[0]}"
            await client.invoke(address, request(ECHO))
        assert await asyncio.wait_for(lost.get(), 60) == address


async def test_ipv6_addresses_stand_in_brackets() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    async with running_server(host="::1") as server, RemotingClient() as client:
        answer = await client.invoke(f"[::1]:{server.ports[0]}", request(ECHO, body=b"six"))
        assert answer.body == b"six"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = ["openssl", "req", "-x509", *curve, "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run([*command, *names], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl to make a certificate with")
    return key, cert


async def test_tls_carries_calls_and_a_plain_server_is_refused(certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with running_server(tls=ours) as server:
        address = f"127.0.0.1:{server.ports[0]}"
        async with RemotingClient(tls=trusting) as client:
            body = b"secret" * 100_000
            assert (await client.invoke(address, request(ECHO, body=body))).body == body
        async with RemotingClient(tls=ssl.create_default_context()) as client:
            with pytest.raises(ConnectFailed, match="certificate verify failed"):
                await client.invoke(address, request(ECHO))
        async with RemotingClient() as client:
            assert (await client.invoke(address, request(ECHO, body=b"plain"))).body == b"plain"
    async with running_server() as server, RemotingClient(tls=trusting) as client:
        with pytest.raises(ConnectFailed):
            await client.invoke(f"127.0.0.1:{server.ports[0]}", request(ECHO))
