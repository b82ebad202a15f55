"""Apache's own Java client against a real broker process (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import client_laws
from support.cluster import Cluster
from support.peers import Peer, java_peer

pytestmark = pytest.mark.interop


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path)
    yield peer
    peer.stop_all()


@pytest.mark.parametrize(
    "law",
    [
        client_laws.everything_sent_is_received_once,
        client_laws.a_waiting_consumer_gets_messages_as_they_come,
        client_laws.a_group_goes_on_where_it_stopped,
        client_laws.only_messages_with_a_subscribed_tag_arrive,
        client_laws.a_refused_message_comes_again,
        client_laws.a_large_body_comes_back_whole,
        client_laws.a_topic_is_created_by_the_first_send,
        client_laws.order_within_a_queue_is_kept,
        client_laws.a_pull_consumer_reads_from_the_start,
        client_laws.a_delayed_message_waits,
        client_laws.a_batch_arrives_as_single_messages,
    ],
    ids=lambda law: law.__name__,
)
def test_java_client(law: client_laws.Law, cluster: Cluster, peer: Peer) -> None:
    law(cluster, peer)


def test_the_vip_port_serves_clients_that_use_it(cluster: Cluster, peer: Peer) -> None:
    client_laws.the_vip_port_serves(cluster, peer)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
def test_a_restart_of_the_broker_loses_nothing(kill: bool, cluster: Cluster, peer: Peer) -> None:
    client_laws.a_restart_loses_nothing(cluster, peer, kill=kill)
