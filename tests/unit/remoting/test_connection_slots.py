"""Who has a place when all are taken: those who use it."""

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketeer.protocol.command import decode_frame, encode, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting import connection_slots
from rocketeer.remoting.router import Router
from rocketeer.remoting.server import RemotingServer
from rocketeer.security.certificates import Authority
from support.remoting import ECHO, HANDLERS

PLACES = 8


@contextlib.asynccontextmanager
async def small_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[RemotingServer]:
    server = RemotingServer(Router(HANDLERS).process, connections_max=PLACES, frame_s=0.4, tls=lambda: tls)
    await server.start("127.0.0.1", [0])
    try:
        yield server
    finally:
        await server.stop()


class Guest:
    """Says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, server: RemotingServer, tls: ssl.SSLContext | None = None) -> "Guest":
        return cls(*await asyncio.open_connection("127.0.0.1", server.ports[0], ssl=tls))

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    async def is_served(self) -> bool:
        """Whether a request is answered."""
        splitter = FrameSplitter()
        with contextlib.suppress(ConnectionError):
            self._writer.write(encode(request(ECHO, body=b"x")))
            while data := await self._reader.read(4096):
                for frame in splitter.feed(data):
                    return decode_frame(*frame).body == b"x"
        return False

    async def has_ended(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return await self._reader.read(4096) == b""
        return True

    def leave(self) -> None:
        self._writer.close()


SAID = {"nothing": b"", "a byte": b"\0", "half": b"\0\0\0\x64\0\0\0", "TLS": b"\x16\x03\x01"}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_strangers_who_were_never_answered_give_their_places_the_oldest_first(said: bytes) -> None:
    async with small_server() as server:
        known = await Guest.of(server)
        assert await known.is_served()
        strangers = [await Guest.of(server) for _ in range(3 * PLACES)]
        for stranger in strangers:
            stranger.say(said)
        newcomers = [await Guest.of(server) for _ in range(3)]
        assert [await newcomer.is_served() for newcomer in newcomers] == [True] * 3
        assert await known.is_served()
        assert await strangers[0].has_ended()
        for guest in (known, *strangers, *newcomers):
            guest.leave()


async def test_where_all_are_known_the_newcomer_waits_until_one_falls_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with small_server() as server:
        known = [await Guest.of(server) for _ in range(PLACES)]
        assert all([await guest.is_served() for guest in known])
        assert not await (await Guest.of(server)).is_served()
        monkeypatch.setattr(connection_slots, "SILENT_S", 0.3)

        async def newcomer_is_served() -> bool:
            for guest in known[2:]:
                assert await guest.is_served()
            return await (await Guest.of(server)).is_served()

        async with asyncio.timeout(60):
            while not await newcomer_is_served():  # noqa: ASYNC110 the server looks now and then
                await asyncio.sleep(0.02)
        assert await known[0].has_ended() or await known[1].has_ended()
        for guest in known[2:]:
            assert await guest.is_served()


async def test_a_handshake_is_no_answer(tmp_path: Path) -> None:
    authority = Authority(tmp_path, days=2, now=datetime.datetime.now(datetime.UTC))
    issued = authority.issue("server", ["127.0.0.1"])
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(issued.cert, issued.key)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.check_hostname = False
    theirs.verify_mode = ssl.CERT_NONE
    async with small_server(ours) as server:
        known = await Guest.of(server, theirs)
        assert await known.is_served()
        strangers = [await Guest.of(server, theirs) for _ in range(2 * PLACES)]
        assert await (await Guest.of(server, theirs)).is_served()
        assert await known.is_served()
        assert await strangers[0].has_ended()
