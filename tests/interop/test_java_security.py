"""Apache's Java client with an account (AclClientRPCHook) and TLS, against servers of ours that ask for both."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.peers import Peer, java_peer
from support.secured import secured_cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
ACCOUNT = {"access-key": "shopuser1", "secret-key": "secret123"}


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path)
    yield peer
    peer.stop_all()


async def test_java_signs_in_and_uses_tls(tmp_path: Path, peer: Peer) -> None:
    async with secured_cluster(tmp_path) as cluster:
        where = {"namesrv": cluster.nameserver, "topic": "orders", "tls": "true", **ACCOUNT}
        sent = await asyncio.to_thread(lambda: peer.run("send", count=5, **where))
        assert sum(event["event"] == "sent" for event in sent) == 5
        consumer = await asyncio.to_thread(lambda: peer.start("consume", group="billing", expect=5, **where))
        await asyncio.to_thread(consumer.finish)
        assert len(set(consumer.bodies())) == 5


async def test_java_hears_what_its_account_may_not_do(tmp_path: Path, peer: Peer) -> None:
    async with secured_cluster(tmp_path) as cluster:
        where = {"namesrv": cluster.nameserver, "topic": "secrets", "tls": "true", **ACCOUNT}
        with pytest.raises(AssertionError, match="No default permission for topic:secrets"):
            await asyncio.to_thread(lambda: peer.run("send", count=1, **where))
