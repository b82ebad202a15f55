"""Whoever is told to stop calling stops, in whatever moment."""

import asyncio
import socket

import pytest

from rocketeer.replication.stream_connection import connected
from rocketeer.security.peer_socket import PeerSecurity


async def test_a_call_that_is_cancelled_in_the_moment_it_fails_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member that was to follow another leader went on calling the dead one, and its member decided nothing more."""
    loop = asyncio.get_running_loop()
    connecting: asyncio.Future[None] = loop.create_future()
    asked = asyncio.Event()

    def connect(sock: socket.socket, where: object) -> asyncio.Future[None]:
        asked.set()
        return connecting

    async def call() -> None:
        async with connected("127.0.0.1:1", PeerSecurity(), "test", 30):
            raise AssertionError("nobody is there")

    monkeypatch.setattr(loop, "sock_connect", connect)
    calling = asyncio.create_task(call())
    await asked.wait()
    connecting.set_exception(ConnectionRefusedError())
    calling.cancel()
    await asyncio.wait((calling,))
    assert calling.cancelled()
