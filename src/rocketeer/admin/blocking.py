"""`rocketeer.Admin`: what an operator asks and changes, for threads.

    from rocketeer import Admin

    with Admin("127.0.0.1:9876") as admin:
        print(admin.topics())
        print(admin.group_progress("billing").lag)

Every method is a plan of `admin.plans`, where its text and options stand. `rocketeer.aio.Admin` has the same.
"""

from typing import TypeVar

from rocketeer.admin.calling import Blocking
from rocketeer.admin.context import NOT_RUNNING, AdminBase
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
from rocketeer.client import discovery
from rocketeer.client.lifetime import Started
from rocketeer.client.plans.effects import Plan
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import ClientClosed

T = TypeVar("T")


class Admin(AdminBase, Started):
    """Asks name servers and brokers; threads may share one. Without an address: NAMESRV_ADDR."""

    _driver: BlockingDriver | None = None

    def start(self) -> None:
        """Find the name servers' addresses; connections are made when they are needed."""
        if self._driver is None:
            self._open_context(discovery.discover(self._nameserver))
            self._driver = BlockingDriver(self._security)

    def close(self) -> None:
        driver, self._driver, self._context = self._driver, None, None
        if driver is not None:
            driver.close()

    def run(self, plan: Plan[T]) -> T:
        """Run a plan in the calling thread."""
        if self._driver is None:
            raise ClientClosed(NOT_RUNNING)
        return self._driver.run(plan)

    # --- clusters and brokers --------------------------------------------------------------------

    cluster_map = Blocking(cluster_plans.cluster_map)
    broker_runtime = Blocking(cluster_plans.broker_runtime)
    cluster_runtime = Blocking(cluster_plans.cluster_runtime)
    broker_settings = Blocking(cluster_plans.broker_settings)
    cluster_settings = Blocking(cluster_plans.cluster_settings)
    update_broker_settings = Blocking(cluster_plans.update_broker_settings)
    broker_stats = Blocking(cluster_plans.broker_stats)
    broker_consume_stats = Blocking(cluster_plans.broker_consume_stats)
    clean_expired_queues = Blocking(cluster_plans.clean_expired_queues)
    delete_expired_log = Blocking(cluster_plans.delete_expired_log)
    clean_unused_topics = Blocking(cluster_plans.clean_unused_topics)
    wipe_write_perm = Blocking(cluster_plans.wipe_write_perm)
    add_write_perm = Blocking(cluster_plans.add_write_perm)
    resume_half_message = Blocking(cluster_plans.resume_half_message)
    replica_group = Blocking(replica_plans.replica_group)
    replica_groups = Blocking(replica_plans.replica_groups)
    switch_leader = Blocking(replica_plans.switch_leader)

    # --- name servers ----------------------------------------------------------------------------

    get_kv = Blocking(nameserver_plans.get_kv)
    kv_namespace = Blocking(nameserver_plans.kv_namespace)
    put_kv = Blocking(nameserver_plans.put_kv)
    delete_kv = Blocking(nameserver_plans.delete_kv)
    nameserver_settings = Blocking(nameserver_plans.nameserver_settings)
    update_nameserver_settings = Blocking(nameserver_plans.update_nameserver_settings)

    # --- topics ----------------------------------------------------------------------------------

    topics = Blocking(topic_plans.topics)
    system_topics = Blocking(topic_plans.system_topics)
    unit_topics = Blocking(topic_plans.unit_topics)
    topic_exists = Blocking(topic_plans.topic_exists)
    topic_route = Blocking(topic_plans.topic_route)
    topic_clusters = Blocking(topic_plans.topic_clusters)
    topic_status = Blocking(topic_plans.topic_status)
    topic_configs = Blocking(topic_plans.topic_configs)
    topic_groups = Blocking(topic_plans.topic_groups)
    all_topic_groups = Blocking(topic_plans.all_topic_groups)
    update_topic = Blocking(topic_plans.update_topic)
    update_topic_perm = Blocking(topic_plans.update_topic_perm)
    delete_topic = Blocking(topic_plans.delete_topic)
    order_conf = Blocking(topic_plans.order_conf)
    put_order_conf = Blocking(topic_plans.put_order_conf)
    delete_order_conf = Blocking(topic_plans.delete_order_conf)
    activity = Blocking(stats_plans.activity)
    topic_rates = Blocking(stats_plans.topic_rates)

    # --- consumer groups -------------------------------------------------------------------------

    groups = Blocking(progress_plans.groups)
    group_configs = Blocking(group_plans.group_configs)
    group_exists = Blocking(group_plans.group_exists)
    update_group = Blocking(group_plans.update_group)
    delete_group = Blocking(group_plans.delete_group)
    group_connections = Blocking(group_plans.group_connections)
    running_info = Blocking(group_plans.running_info)
    group_members = Blocking(group_plans.group_members)
    member_offsets = Blocking(group_plans.member_offsets)
    group_progress = Blocking(progress_plans.group_progress)
    time_spans = Blocking(progress_plans.time_spans)

    # --- offsets ---------------------------------------------------------------------------------

    reset_offsets = Blocking(offset_plans.reset_offsets)
    reset_offline_offsets = Blocking(offset_plans.reset_offline_offsets)
    clone_offsets = Blocking(offset_plans.clone_offsets)
    consumer_offsets = Blocking(offset_plans.consumer_offsets)
    delay_offsets = Blocking(offset_plans.delay_offsets)
    offset_corrections = Blocking(offset_plans.offset_corrections)
    queue_range = Blocking(offset_plans.queue_range)
    offset_at = Blocking(offset_plans.offset_at)

    # --- producers -------------------------------------------------------------------------------

    producer_connections = Blocking(producer_plans.producer_connections)
    producers = Blocking(producer_plans.producers)

    # --- messages --------------------------------------------------------------------------------

    view_message = Blocking(message_plans.view_message)
    messages_with_id = Blocking(message_plans.messages_with_id)
    messages_with_key = Blocking(message_plans.messages_with_key)
    message_at = Blocking(message_plans.message_at)
    queues = Blocking(message_plans.queues)
    pull_messages = Blocking(message_plans.pull_messages)
    message_trace = Blocking(message_plans.message_trace)
    consume_directly = Blocking(message_plans.consume_directly)
    queue_entries = Blocking(message_plans.queue_entries)
    track_message = Blocking(message_plans.track_message)

    # --- access ----------------------------------------------------------------------------------

    update_acl_account = Blocking(acl.update_acl_account)
    delete_acl_account = Blocking(acl.delete_acl_account)
    update_white_addresses = Blocking(acl.update_white_addresses)
    acl_versions = Blocking(acl.acl_versions)
