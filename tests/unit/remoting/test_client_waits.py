"""Every wait of the asyncio client has an end: time-outs, lost and silent peers, nobody at the address, cancelled calls."""

import asyncio
import contextlib
import socket
import struct

import pytest

from rocketeer.config.ports import free_ports
from rocketeer.errors import CallTimeout, ConnectFailed, ConnectionLost
from rocketeer.protocol.command import Command, encode, reply, request
from rocketeer.remoting import outgoing_connection
from rocketeer.remoting.client import RemotingClient
from support.remoting import ECHO, NEVER, SLOW, commands, peer, running_server


async def test_a_call_without_an_answer_ends_at_its_time_out_and_the_connection_goes_on() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        await client.invoke(address, request(ECHO))
        with pytest.raises(CallTimeout, match=r"code 903 within 0\.05 s"):
            await client.invoke(address, request(NEVER), timeout_s=0.05)
        await client.invoke(address, request(ECHO))
        assert len(server.connections) == 1


async def test_each_call_keeps_its_own_time_out() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        ended: list[float] = []
        await client.invoke(address, request(ECHO))

        async def ask(timeout_s: float) -> None:
            with pytest.raises(CallTimeout):
                await client.invoke(address, request(NEVER), timeout_s=timeout_s)
            ended.append(timeout_s)

        await asyncio.gather(ask(0.9), ask(0.3), ask(0.6), ask(0.0), ask(-1.0))
    assert sorted(ended[:2]) == [-1.0, 0.0]
    assert ended[2:] == [0.3, 0.6, 0.9]


async def test_an_answer_that_comes_after_the_time_out_disturbs_nobody() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        await client.invoke(address, request(ECHO))  # connecting is not what must be in time
        late = request(SLOW, {"s": "0.05"}, b"late")
        with pytest.raises(CallTimeout):
            await client.invoke(address, late, timeout_s=0.02)
        later = request(SLOW, {"s": "0.1"}, b"later")
        assert (await client.invoke(address, later)).body == b"later"


async def test_a_lost_connection_wakes_all_waiters() -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived = 0
        async for _ in commands(reader):
            arrived += 1
            if arrived == 20:
                return

    async with peer(behave) as address, RemotingClient() as client:
        outcomes = await asyncio.gather(
            *(client.invoke(address, request(ECHO), timeout_s=30) for _ in range(20)), return_exceptions=True
        )
    assert {type(outcome) for outcome in outcomes} == {ConnectionLost}


async def test_garbage_from_the_peer_ends_the_connection_and_wakes_the_waiters() -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        command = await anext(commands(reader))
        writer.write(encode(reply(command, body=b"good")) + struct.pack(">i", -5))
        await reader.read()

    async with peer(behave) as address, RemotingClient() as client:
        good, lost = await asyncio.gather(
            client.invoke(address, request(ECHO)),
            client.invoke(address, request(ECHO), timeout_s=30),
            return_exceptions=True,
        )
        assert isinstance(good, Command), "what stood before the garbage is delivered"
        assert isinstance(lost, ConnectionLost)
        assert "-5" in str(lost)


async def test_nobody_at_the_address_is_said_at_once() -> None:
    async with RemotingClient() as client:
        with pytest.raises(ConnectFailed, match=r"cannot connect to 127\.0\.0\.1"):
            await client.invoke("127.0.0.1:1", request(ECHO))


async def test_connecting_takes_no_longer_than_its_time_out_nor_the_calls() -> None:
    # A full backlog: the kernel answers no further handshake.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            async with RemotingClient(connect_timeout_s=0.1) as client:
                with pytest.raises(ConnectFailed, match=r"within 0\.1 s"):
                    await client.invoke(address, request(ECHO), timeout_s=30)
                with pytest.raises(ConnectFailed, match=r"within 0\.03 s"):
                    await client.invoke(address, request(ECHO), timeout_s=0.03)
        finally:
            for filler in fillers:
                filler.close()


async def test_a_text_that_is_no_address_is_refused() -> None:
    async with RemotingClient() as client:
        for text in ("", "localhost", "localhost:", ":9876", "localhost:0", "localhost:99999", "::1:9876"):
            with pytest.raises(ConnectFailed):
                await client.invoke(text, request(ECHO))
        with pytest.raises(ConnectFailed):
            await client.invoke("a" * 80 + "..b:9876", request(ECHO))


async def test_a_dead_address_is_connected_again_by_the_next_call() -> None:
    port, _ = free_ports()
    address = f"127.0.0.1:{port}"
    async with RemotingClient() as client:
        with pytest.raises(ConnectFailed):
            await client.invoke(address, request(ECHO))
        for _ in range(2):
            async with running_server(port):
                assert (await client.invoke(address, request(ECHO, body=b"up"))).body == b"up"
            with pytest.raises((ConnectFailed, ConnectionLost)):
                await client.invoke(address, request(ECHO))


async def test_a_connection_that_went_silent_is_given_up_after_a_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outgoing_connection, "SILENCE_S", 0.03)
    connections = 0

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        first = connections == 1
        async for command in commands(reader):
            if not first:
                writer.write(encode(reply(command)))

    async with peer(behave) as address, RemotingClient() as client:
        await client.oneway(address, request(ECHO))  # connecting is not what must be in time
        with pytest.raises(CallTimeout):
            await client.invoke(address, request(ECHO), timeout_s=0.06)
        await client.invoke(address, request(ECHO))
    assert connections == 2


async def test_many_callers_share_one_attempt_to_connect_and_one_may_give_up() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        calls = [asyncio.create_task(client.invoke(address, request(ECHO))) for _ in range(5)]
        await asyncio.sleep(0)
        calls[0].cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert all(isinstance(outcome, Command) for outcome in outcomes[1:])
        assert len(server.connections) == 1


async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async with running_server() as server, RemotingClient() as client:
        address = f"127.0.0.1:{server.ports[0]}"
        await client.invoke(address, request(ECHO))
        call = asyncio.create_task(client.invoke(address, request(NEVER), timeout_s=30))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not client._connections[address]._calls


async def test_a_peer_that_does_not_read_makes_senders_wait_not_the_memory_grow() -> None:
    release = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()

    async with peer(behave) as address, RemotingClient() as client:
        command = request(ECHO, body=b"x" * (1 << 20))
        await client.oneway(address, command)
        sent = 1
        with contextlib.suppress(CallTimeout):
            while sent < 200:
                await client.oneway(address, command, timeout_s=0.2)
                sent += 1
        assert sent < 60
        release.set()
