"""What `rocketeer.Admin` and `rocketeer.aio.Admin` share: their options and the table of their methods.

A method is a plan of `admin.plans`, where its text and options stand, and one line here.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plan_method import PlanMethod
from rocketeer.admin.plans import acl
from rocketeer.admin.plans import clusters as cluster_plans
from rocketeer.admin.plans import groups as group_plans
from rocketeer.admin.plans import messages as message_plans
from rocketeer.admin.plans import nameservers as nameserver_plans
from rocketeer.admin.plans import offsets as offset_plans
from rocketeer.admin.plans import producers as producer_plans
from rocketeer.admin.plans import progress as progress_plans
from rocketeer.admin.plans import replicas as replica_plans
from rocketeer.admin.plans import stats as stats_plans
from rocketeer.admin.plans import topics as topic_plans
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.secure import connection_security
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed
from rocketeer.security.tls import TlsConfig

D = TypeVar("D")
NOT_RUNNING = "this Admin is not running: use it in a (async) with block, or start() it first"


class AdminBase(ABC):
    """Asks name servers and brokers. Without an address: NAMESRV_ADDR.

    Threads may share one; of `rocketeer.aio`'s each event loop has its own.
    """

    def __init__(
        self,
        nameserver: str | Sequence[str] | None = None,
        *,
        timeout_s: float = 5.0,
        access_key: str | None = None,
        secret_key: str | None = None,
        tls: bool | TlsConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Account and TLS as every client has them; without them the environment's (`rocketeer.client.secure`)."""
        self._nameserver = nameserver
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._security = connection_security(access_key, secret_key, tls, now_ms=self._clock.now_ms)
        self._context: AdminContext | None = None

    @abstractmethod
    def start(self) -> Awaitable[None] | None:
        """Find the name servers' addresses; connections are made when they are needed."""

    def _open_context(self, nameservers: Sequence[str]) -> None:
        self._context = AdminContext(NameServers(nameservers), RouteCache(), self._clock, self._timeout_s)

    def context(self) -> AdminContext:
        """What plans of your own are made with: name servers, routes, the time limit. Only while it runs."""
        if self._context is None:
            raise ClientClosed(NOT_RUNNING)
        return self._context

    @staticmethod
    def _running(driver: D | None) -> D:
        """What runs the plans; raises ClientClosed before `start` and after `close`."""
        if driver is None:
            raise ClientClosed(NOT_RUNNING)
        return driver

    # --- clusters and brokers --------------------------------------------------------------------

    cluster_map = PlanMethod(cluster_plans.cluster_map)
    broker_runtime = PlanMethod(cluster_plans.broker_runtime)
    cluster_runtime = PlanMethod(cluster_plans.cluster_runtime)
    broker_settings = PlanMethod(cluster_plans.broker_settings)
    cluster_settings = PlanMethod(cluster_plans.cluster_settings)
    update_broker_settings = PlanMethod(cluster_plans.update_broker_settings)
    broker_stats = PlanMethod(cluster_plans.broker_stats)
    broker_consume_stats = PlanMethod(cluster_plans.broker_consume_stats)
    clean_expired_queues = PlanMethod(cluster_plans.clean_expired_queues)
    delete_expired_log = PlanMethod(cluster_plans.delete_expired_log)
    clean_unused_topics = PlanMethod(cluster_plans.clean_unused_topics)
    wipe_write_perm = PlanMethod(cluster_plans.wipe_write_perm)
    add_write_perm = PlanMethod(cluster_plans.add_write_perm)
    resume_half_message = PlanMethod(cluster_plans.resume_half_message)
    replica_group = PlanMethod(replica_plans.replica_group)
    replica_groups = PlanMethod(replica_plans.replica_groups)
    switch_leader = PlanMethod(replica_plans.switch_leader)

    # --- name servers ----------------------------------------------------------------------------

    get_kv = PlanMethod(nameserver_plans.get_kv)
    kv_namespace = PlanMethod(nameserver_plans.kv_namespace)
    put_kv = PlanMethod(nameserver_plans.put_kv)
    delete_kv = PlanMethod(nameserver_plans.delete_kv)
    nameserver_settings = PlanMethod(nameserver_plans.nameserver_settings)
    update_nameserver_settings = PlanMethod(nameserver_plans.update_nameserver_settings)

    # --- topics ----------------------------------------------------------------------------------

    topics = PlanMethod(topic_plans.topics)
    system_topics = PlanMethod(topic_plans.system_topics)
    unit_topics = PlanMethod(topic_plans.unit_topics)
    topic_exists = PlanMethod(topic_plans.topic_exists)
    topic_route = PlanMethod(topic_plans.topic_route)
    topic_clusters = PlanMethod(topic_plans.topic_clusters)
    topic_status = PlanMethod(topic_plans.topic_status)
    topic_configs = PlanMethod(topic_plans.topic_configs)
    topic_groups = PlanMethod(topic_plans.topic_groups)
    all_topic_groups = PlanMethod(topic_plans.all_topic_groups)
    update_topic = PlanMethod(topic_plans.update_topic)
    update_topic_perm = PlanMethod(topic_plans.update_topic_perm)
    delete_topic = PlanMethod(topic_plans.delete_topic)
    order_conf = PlanMethod(topic_plans.order_conf)
    put_order_conf = PlanMethod(topic_plans.put_order_conf)
    delete_order_conf = PlanMethod(topic_plans.delete_order_conf)
    activity = PlanMethod(stats_plans.activity)
    topic_rates = PlanMethod(stats_plans.topic_rates)

    # --- consumer groups -------------------------------------------------------------------------

    groups = PlanMethod(progress_plans.groups)
    group_configs = PlanMethod(group_plans.group_configs)
    group_exists = PlanMethod(group_plans.group_exists)
    update_group = PlanMethod(group_plans.update_group)
    delete_group = PlanMethod(group_plans.delete_group)
    group_connections = PlanMethod(group_plans.group_connections)
    running_info = PlanMethod(group_plans.running_info)
    group_members = PlanMethod(group_plans.group_members)
    member_offsets = PlanMethod(group_plans.member_offsets)
    group_progress = PlanMethod(progress_plans.group_progress)
    time_spans = PlanMethod(progress_plans.time_spans)

    # --- offsets ---------------------------------------------------------------------------------

    reset_offsets = PlanMethod(offset_plans.reset_offsets)
    reset_offline_offsets = PlanMethod(offset_plans.reset_offline_offsets)
    clone_offsets = PlanMethod(offset_plans.clone_offsets)
    consumer_offsets = PlanMethod(offset_plans.consumer_offsets)
    delay_offsets = PlanMethod(offset_plans.delay_offsets)
    offset_corrections = PlanMethod(offset_plans.offset_corrections)
    queue_range = PlanMethod(offset_plans.queue_range)
    offset_at = PlanMethod(offset_plans.offset_at)

    # --- producers -------------------------------------------------------------------------------

    producer_connections = PlanMethod(producer_plans.producer_connections)
    producers = PlanMethod(producer_plans.producers)

    # --- messages --------------------------------------------------------------------------------

    view_message = PlanMethod(message_plans.view_message)
    messages_with_id = PlanMethod(message_plans.messages_with_id)
    messages_with_key = PlanMethod(message_plans.messages_with_key)
    message_at = PlanMethod(message_plans.message_at)
    queues = PlanMethod(message_plans.queues)
    pull_messages = PlanMethod(message_plans.pull_messages)
    message_trace = PlanMethod(message_plans.message_trace)
    consume_directly = PlanMethod(message_plans.consume_directly)
    queue_entries = PlanMethod(message_plans.queue_entries)
    track_message = PlanMethod(message_plans.track_message)

    # --- access ----------------------------------------------------------------------------------

    update_acl_account = PlanMethod(acl.update_acl_account)
    delete_acl_account = PlanMethod(acl.delete_acl_account)
    update_white_addresses = PlanMethod(acl.update_white_addresses)
    acl_versions = PlanMethod(acl.acl_versions)
