"""`rocketeer.aio.Admin`: what an operator asks and changes, for asyncio.

    from rocketeer.aio import Admin

    async with Admin("127.0.0.1:9876") as admin:
        print(await admin.topics())

The methods are those of `rocketeer.Admin`, to await.
"""

import asyncio
from typing import TypeVar

from rocketeer.admin.calling import Awaited
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
from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.lifetime import StartedAsync
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import ClientClosed
from rocketeer.remoting.client import RemotingClient

T = TypeVar("T")


class Admin(AdminBase, StartedAsync):
    """Asks name servers and brokers. Without an address: NAMESRV_ADDR."""

    _remoting: RemotingClient | None = None
    _driver: AsyncDriver | None = None

    async def start(self) -> None:
        """Find the name servers' addresses; connections are made when they are needed."""
        if self._driver is None:
            self._open_context(await asyncio.to_thread(discovery.discover, self._nameserver))
            self._remoting = RemotingClient(sign=self._security.sign, tls=self._security.tls)
            self._driver = AsyncDriver(self._remoting)

    async def close(self) -> None:
        remoting, self._remoting, self._driver, self._context = self._remoting, None, None, None
        if remoting is not None:
            remoting.close()
            await remoting.wait_closed()

    async def run(self, plan: Plan[T]) -> T:
        """Run a plan."""
        if self._driver is None:
            raise ClientClosed(NOT_RUNNING)
        return await self._driver.run(plan)

    # --- clusters and brokers --------------------------------------------------------------------

    cluster_map = Awaited(cluster_plans.cluster_map)
    broker_runtime = Awaited(cluster_plans.broker_runtime)
    cluster_runtime = Awaited(cluster_plans.cluster_runtime)
    broker_settings = Awaited(cluster_plans.broker_settings)
    cluster_settings = Awaited(cluster_plans.cluster_settings)
    update_broker_settings = Awaited(cluster_plans.update_broker_settings)
    broker_stats = Awaited(cluster_plans.broker_stats)
    broker_consume_stats = Awaited(cluster_plans.broker_consume_stats)
    clean_expired_queues = Awaited(cluster_plans.clean_expired_queues)
    delete_expired_log = Awaited(cluster_plans.delete_expired_log)
    clean_unused_topics = Awaited(cluster_plans.clean_unused_topics)
    wipe_write_perm = Awaited(cluster_plans.wipe_write_perm)
    add_write_perm = Awaited(cluster_plans.add_write_perm)
    resume_half_message = Awaited(cluster_plans.resume_half_message)
    replica_group = Awaited(replica_plans.replica_group)
    replica_groups = Awaited(replica_plans.replica_groups)
    switch_leader = Awaited(replica_plans.switch_leader)

    # --- name servers ----------------------------------------------------------------------------

    get_kv = Awaited(nameserver_plans.get_kv)
    kv_namespace = Awaited(nameserver_plans.kv_namespace)
    put_kv = Awaited(nameserver_plans.put_kv)
    delete_kv = Awaited(nameserver_plans.delete_kv)
    nameserver_settings = Awaited(nameserver_plans.nameserver_settings)
    update_nameserver_settings = Awaited(nameserver_plans.update_nameserver_settings)

    # --- topics ----------------------------------------------------------------------------------

    topics = Awaited(topic_plans.topics)
    system_topics = Awaited(topic_plans.system_topics)
    unit_topics = Awaited(topic_plans.unit_topics)
    topic_exists = Awaited(topic_plans.topic_exists)
    topic_route = Awaited(topic_plans.topic_route)
    topic_clusters = Awaited(topic_plans.topic_clusters)
    topic_status = Awaited(topic_plans.topic_status)
    topic_configs = Awaited(topic_plans.topic_configs)
    topic_groups = Awaited(topic_plans.topic_groups)
    all_topic_groups = Awaited(topic_plans.all_topic_groups)
    update_topic = Awaited(topic_plans.update_topic)
    update_topic_perm = Awaited(topic_plans.update_topic_perm)
    delete_topic = Awaited(topic_plans.delete_topic)
    order_conf = Awaited(topic_plans.order_conf)
    put_order_conf = Awaited(topic_plans.put_order_conf)
    delete_order_conf = Awaited(topic_plans.delete_order_conf)
    activity = Awaited(stats_plans.activity)
    topic_rates = Awaited(stats_plans.topic_rates)

    # --- consumer groups -------------------------------------------------------------------------

    groups = Awaited(progress_plans.groups)
    group_configs = Awaited(group_plans.group_configs)
    group_exists = Awaited(group_plans.group_exists)
    update_group = Awaited(group_plans.update_group)
    delete_group = Awaited(group_plans.delete_group)
    group_connections = Awaited(group_plans.group_connections)
    running_info = Awaited(group_plans.running_info)
    group_members = Awaited(group_plans.group_members)
    member_offsets = Awaited(group_plans.member_offsets)
    group_progress = Awaited(progress_plans.group_progress)
    time_spans = Awaited(progress_plans.time_spans)

    # --- offsets ---------------------------------------------------------------------------------

    reset_offsets = Awaited(offset_plans.reset_offsets)
    reset_offline_offsets = Awaited(offset_plans.reset_offline_offsets)
    clone_offsets = Awaited(offset_plans.clone_offsets)
    consumer_offsets = Awaited(offset_plans.consumer_offsets)
    delay_offsets = Awaited(offset_plans.delay_offsets)
    offset_corrections = Awaited(offset_plans.offset_corrections)
    queue_range = Awaited(offset_plans.queue_range)
    offset_at = Awaited(offset_plans.offset_at)

    # --- producers -------------------------------------------------------------------------------

    producer_connections = Awaited(producer_plans.producer_connections)
    producers = Awaited(producer_plans.producers)

    # --- messages --------------------------------------------------------------------------------

    view_message = Awaited(message_plans.view_message)
    messages_with_id = Awaited(message_plans.messages_with_id)
    messages_with_key = Awaited(message_plans.messages_with_key)
    message_at = Awaited(message_plans.message_at)
    queues = Awaited(message_plans.queues)
    pull_messages = Awaited(message_plans.pull_messages)
    message_trace = Awaited(message_plans.message_trace)
    consume_directly = Awaited(message_plans.consume_directly)
    queue_entries = Awaited(message_plans.queue_entries)
    track_message = Awaited(message_plans.track_message)

    # --- access ----------------------------------------------------------------------------------

    update_acl_account = Awaited(acl.update_acl_account)
    delete_acl_account = Awaited(acl.delete_acl_account)
    update_white_addresses = Awaited(acl.update_white_addresses)
    acl_versions = Awaited(acl.acl_versions)
