"""The C++ client and npm's `ali-ons` with the keys of an account, against servers of ours that ask for one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Message, aio
from support.peers import Peer, cpp_peer, node_peer
from support.secured import SHOP, secured_cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
ACCOUNT = {"access-key": "shopuser1", "secret-key": "secret123"}


@pytest.fixture(params=["cpp", "ali_ons"])
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    if request.param == "cpp":
        pytest.importorskip(
            "rocketmq.client", reason="PyPI rocketmq 0.4.4 has wheels for Linux x86_64 and macOS"
        )
        peer = cpp_peer(tmp_path)
    else:
        peer = node_peer(request.param, tmp_path)
    yield peer
    peer.stop_all()


async def test_signs_in_sends_and_consumes(tmp_path: Path, peer: Peer) -> None:
    async with secured_cluster(tmp_path, tls_mode="permissive", open_routes=True) as cluster:
        async with aio.Producer("shop", nameserver=cluster.nameserver, tls=cluster.tls, **SHOP) as ours:
            await ours.send(Message("orders", b"ours"))  # ali-ons sends to no topic that is not there yet
        where = {"namesrv": cluster.nameserver, "topic": "orders", **ACCOUNT}
        sent = await asyncio.to_thread(lambda: peer.run("send", count=5, **where))
        assert sum(event["event"] == "sent" for event in sent) == 5
        consumer = await asyncio.to_thread(lambda: peer.start("consume", group="billing", expect=6, **where))
        await asyncio.to_thread(consumer.finish)
        assert set(consumer.bodies()) == {"ours", *(f"m{number}" for number in range(5))}


async def test_a_wrong_secret_stores_nothing(tmp_path: Path, peer: Peer) -> None:
    async with secured_cluster(tmp_path, tls_mode="permissive", open_routes=True) as cluster:
        where = {"namesrv": cluster.nameserver, "topic": "orders", **ACCOUNT, "secret-key": "wrong-one"}
        running = await asyncio.to_thread(lambda: peer.start("send", count=1, **where))
        with pytest.raises(AssertionError, match=r"(?i)signature|acl|fail|exception|error"):
            await asyncio.to_thread(running.finish)
        assert running.of("sent") == []
