"""What a broker's features stand on: store, tables, clients, name servers. `assemble.py` makes it first."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.handlers.locks import lock_time_ms
from rocketeer.broker.locks import ChangeTrackingLocks, QueueLockTable
from rocketeer.broker.offsets import ChangeTrackingOffsets, ConsumerOffsets
from rocketeer.broker.registration import BrokerIdentity
from rocketeer.broker.tables import TableKeeper
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, ServerConfig, StoreConfig
from rocketeer.observe.counters import Counters
from rocketeer.observe.recorder import Recorder
from rocketeer.observe.stored import StoredTopics
from rocketeer.protocol.command import Sign
from rocketeer.record.hosts import encode_host
from rocketeer.remoting.client import RemotingClient
from rocketeer.remoting.connection import Connection, address_text
from rocketeer.security.addresses import parse_white_list
from rocketeer.security.credentials import read_credentials
from rocketeer.security.peer import read_secrets
from rocketeer.security.peer_socket import PeerSecurity
from rocketeer.security.signature import Signer
from rocketeer.security.tls import (
    ReloadingContext,
    TlsMode,
    client_context,
    client_tls,
    load_tls_properties,
    server_tls,
)
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)


def _numeric(advertised: str | None, own: tuple[str, int]) -> tuple[str, int]:
    """The address that message ids carry: tools ask there for a message. It has no room for a name."""
    if advertised is None:
        return own
    host, _, port = advertised.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        log.warning(
            "advertised name not found name=%s error=%s: message ids carry %s", host, error, address_text(own)
        )
        return own
    # Who has both is asked over IPv4: older clients know nothing else.
    numeric = sorted(found, key=lambda entry: entry[0] is not socket.AF_INET)[0][4]
    return str(numeric[0]), int(numeric[1])


class BrokerState:
    """The objects that all features share: store, tables, clients, name servers. Opens nothing; `Lifecycle` starts
    them."""

    def __init__(self, broker: BrokerConfig, store: StoreConfig, server: ServerConfig, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        host = broker.host.strip("[]")

        def post(run: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(run)

        self.clock = clock
        own = (host, server.listen_port)
        self.address = broker.advertised_address or address_text(own)
        """Where clients reach this broker."""
        self.store_host = encode_host(*_numeric(broker.advertised_address, own))
        in_group = broker.group.enabled
        self.store = MessageStore(store, clock=clock, store_host=self.store_host, post=post, bounded=in_group)
        self.counters = Counters()
        self.recorder = Recorder(
            self.counters, StoredTopics(self.store.queue_table), clock, cluster=broker.cluster_name
        )
        self.tables = TableKeeper(store.store_path / "config", self.store)
        self.topics = TopicTable(broker, clock)
        self.groups = ConsumerGroupTable(broker, clock)
        self.offsets = (ChangeTrackingOffsets if in_group else ConsumerOffsets)(
            broker.limits.offsets, broker.limits.offset_pairs, broker.limits.offset_chars
        )
        self.locks = ChangeTrackingLocks(lambda: lock_time_ms(clock)) if in_group else QueueLockTable()
        self.clients: ClientTable[Connection] = ClientTable()
        tls = load_tls_properties(server.tls_file)
        self.tls = ReloadingContext(server_tls(TlsMode(server.tls_mode), tls))
        asks_with_tls = client_tls(tls)
        calls_with = None if asks_with_tls is None else client_context(asks_with_tls)
        self.peers = _peer_security(broker, server, self.tls, calls_with)
        """How this broker and its slaves, or its master, know each other."""
        self.remoting = RemotingClient(tls=calls_with, sign=_sign(server, clock))
        self.identity = BrokerIdentity(
            cluster=broker.cluster_name,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            address=self.address,
            ha_address=address_text((broker.ha_host.strip("[]"), store.ha_port)),
        )
        self.queue_holders: list[Callable[[], None]] = []
        """Functions that `forget_queues` calls."""

    def forget_queues(self) -> None:
        """Tell all holders of queues to drop them: some queues are about to be deleted."""
        for forget in self.queue_holders:
            forget()

    async def watch_certificates(self) -> None:
        await asyncio.to_thread(self.tls.refresh)


def _peer_security(
    broker: BrokerConfig, server: ServerConfig, tls: ReloadingContext, calls_with: ssl.SSLContext | None
) -> PeerSecurity:
    """The rules for peers; closed to unknown ones once secrets, addresses, certificates or accounts are set. Raises
    ConfigError."""
    secrets = () if server.peer_secret_file is None else read_secrets(server.peer_secret_file)
    return PeerSecurity(
        secrets=secrets,
        accept_tls=tls.context,
        call_tls=calls_with,
        takes_plain=tls.takes_plain,
        is_listed=parse_white_list(server.peer_addresses),
        closed=bool(secrets or server.peer_addresses or tls.asks_for_certificates or broker.acl_enable),
    )


def _sign(server: ServerConfig, clock: Clock) -> Sign | None:
    """How this broker signs in to name servers and to its master; None: it does not."""
    if server.credentials_file is None:
        return None
    account = read_credentials(server.credentials_file)
    return Signer(account.access_key, account.secret_key, clock.now_ms).signed
