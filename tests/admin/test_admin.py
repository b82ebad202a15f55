"""Admin, for threads and for asyncio: what it asks of a real cluster of two brokers comes back typed and whole."""

import inspect
import socket
from pathlib import Path

import pytest

import rocketeer
from rocketeer import Admin, Message, Producer
from rocketeer.admin.base import AdminBase
from rocketeer.admin.plan_method import PlanMethod
from rocketeer.admin.results import ClusterBroker
from rocketeer.aio import Admin as AsyncAdmin
from rocketeer.errors import BrokerRefused, ClientClosed, ConfigError, NoNameServer, NoRoute
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.topic import TopicConfig
from support.two_brokers import TwoBrokers


def test_every_method_says_what_it_does_and_both_admins_have_it() -> None:
    methods = {name: each for name, each in vars(AdminBase).items() if isinstance(each, PlanMethod)}
    assert all(method.plan.__doc__ for method in methods.values())
    assert not {*methods} & {*vars(Admin), *vars(AsyncAdmin)}


async def test_a_method_is_awaited_where_the_admin_is_for_asyncio() -> None:
    assert inspect.iscoroutinefunction(AsyncAdmin("127.0.0.1:9").topics)
    assert not inspect.iscoroutinefunction(Admin("127.0.0.1:9").topics)


def test_a_method_shows_its_options(admin: Admin) -> None:
    assert "topic" in inspect.signature(Admin.topic_status).parameters
    assert "Which brokers have how many queues" in (admin.topic_route.__doc__ or "")


def test_the_cluster_is_seen_whole(admin: Admin, pair: TwoBrokers) -> None:
    known = admin.cluster_map()
    assert known.clusters == {"DefaultCluster": ("broker-a", "broker-b")}
    assert known.brokers == (
        ClusterBroker("DefaultCluster", "broker-a", 0, pair.broker),
        ClusterBroker("DefaultCluster", "broker-b", 0, pair.second),
    )
    assert known.at("10.0.0.9:1").name == ""


def test_a_topic_is_made_changed_seen_and_deleted_on_both_brokers(admin: Admin, name: str) -> None:
    assert len(admin.update_topic(TopicConfig(name, 4, 4), cluster="DefaultCluster").brokers) == 2
    assert admin.topic_exists(name)
    assert name in admin.topics()
    assert name in admin.topics(cluster="DefaultCluster")
    route = admin.topic_route(name)
    assert sorted((each.broker_name, each.write_queues) for each in route.queues) == [
        ("broker-a", 4),
        ("broker-b", 4),
    ]
    assert admin.topic_clusters(name) == ("DefaultCluster",)
    changed = admin.update_topic_perm(name, 4, cluster="DefaultCluster")
    assert sorted((was, config.perm) for _, (was, config) in changed) == [(6, 4), (6, 4)]
    assert {table[name].perm for _, table in admin.topic_configs()} == {4}
    admin.delete_topic(name, cluster="DefaultCluster")
    assert not admin.topic_exists(name)
    with pytest.raises(NoRoute, match=name):
        admin.topic_route(name)


def test_an_ordered_topic_is_written_down_at_the_name_server(admin: Admin, name: str) -> None:
    admin.update_topic(TopicConfig(name, 2, 2, order=True), cluster="DefaultCluster")
    assert admin.order_conf(name) == "broker-a:2;broker-b:2"
    admin.put_order_conf(name, "broker-a:1")
    assert admin.order_conf(name) == "broker-a:1"
    admin.delete_order_conf(name)
    assert admin.order_conf(name) is None
    with pytest.raises(ConfigError, match="broker-a:4;broker-b:4"):
        admin.put_order_conf(name, "broker-a:many")


def test_a_group_is_made_seen_and_deleted_on_both_brokers(admin: Admin, name: str) -> None:
    group = SubscriptionGroup(name, consume_enable=False, retry_max=3)
    assert len(admin.update_group(group, cluster="DefaultCluster").brokers) == 2
    assert [table[name] for _, table in admin.group_configs()] == [group, group]
    admin.delete_group(name, cluster="DefaultCluster", offsets=True)
    assert [name in table for _, table in admin.group_configs()] == [False, False]


def test_values_at_the_name_server_come_and_go(admin: Admin, name: str) -> None:
    assert admin.get_kv(name, "colour") is None
    admin.put_kv(name, "colour", "blau")
    assert (admin.get_kv(name, "colour"), admin.kv_namespace(name)) == ("blau", {"colour": "blau"})
    admin.delete_kv(name, "colour")
    assert admin.get_kv(name, "colour") is None


def test_settings_of_a_name_server_are_read_and_changed(admin: Admin, pair: TwoBrokers) -> None:
    assert admin.nameserver_settings()[pair.namesrv]["listenPort"] == str(pair.namesrv_port)
    assert admin.update_nameserver_settings({"orderMessageEnable": "true"}) == (pair.namesrv,)
    assert admin.nameserver_settings()[pair.namesrv]["orderMessageEnable"] == "true"
    with pytest.raises(BrokerRefused, match="serverWorkerThread"):
        admin.update_nameserver_settings({"serverWorkerThread": "1"})


def test_a_broker_is_hidden_from_producers_and_shown_again(admin: Admin, pair: TwoBrokers, name: str) -> None:
    admin.update_topic(TopicConfig(name, 1, 1), cluster="DefaultCluster")
    assert admin.wipe_write_perm("broker-b")[pair.namesrv] > 0
    perms = {each.broker_name: each.perm for each in admin.topic_route(name).queues}
    assert perms == {"broker-a": 6, "broker-b": 4}
    assert admin.add_write_perm("broker-b")[pair.namesrv] > 0
    assert {each.perm for each in admin.topic_route(name).queues} == {6}


def test_messages_are_found_by_id_key_and_place(admin: Admin, pair: TwoBrokers, name: str) -> None:
    admin.update_topic(TopicConfig(name, 1, 1), cluster="DefaultCluster")
    with Producer("PG", nameserver=pair.namesrv) as producer:
        sent = producer.send(Message(name, b"hello", tags="T", keys="k1"))
    assert admin.view_message(sent.offset_message_id).body == b"hello"
    assert [each.body for each in admin.messages_with_id(name, sent.message_id)] == [b"hello"]
    assert [each.keys for each in admin.messages_with_key(name, "k1")] == [["k1"]]
    assert admin.message_at(sent.queue, sent.queue_offset).tags == "T"
    assert sent.queue in admin.queues(name)
    assert admin.queue_range(sent.queue) == (0, 1)
    assert [each.body for each in admin.pull_messages(sent.queue, 0).messages] == [b"hello"]
    assert admin.pull_messages(sent.queue, 0, tags="other").messages == ()


def test_a_group_is_not_copied_onto_itself(admin: Admin, name: str) -> None:
    with pytest.raises(ConfigError, match="onto itself"):
        admin.clone_offsets(name, name, name)


def test_who_has_no_address_and_who_is_not_started_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(NoNameServer, match="NAMESRV_ADDR"):
        Admin().start()
    with pytest.raises(ClientClosed, match="with block"):
        Admin("127.0.0.1:9").topics()


async def test_asyncio_brings_the_same(admin: Admin, pair: TwoBrokers) -> None:
    async with AsyncAdmin(pair.namesrv) as other:
        assert await other.topics() == admin.topics()
        assert await other.cluster_map() == admin.cluster_map()
        configs = await other.topic_configs()
    assert configs == admin.topic_configs()
    with pytest.raises(ClientClosed):
        await other.topics()


def test_one_dead_broker_is_named_and_the_others_answers_stand(pair: TwoBrokers, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{nobody.getsockname()[1]}"
        with Admin(pair.namesrv, timeout_s=3) as admin:
            admin.run(_register(admin, dead))
            try:
                configs = admin.topic_configs()
            finally:
                admin.run(_unregister(admin, dead))
    assert sorted(broker.name for broker, _ in configs) == ["broker-a", "broker-b"]
    (failure,) = configs.failures
    assert str(failure).startswith(f"broker-dead ({dead}) did not answer: ")


def _register(admin: Admin, address: str):  # type: ignore[no-untyped-def]
    from rocketeer.admin.plans.asking import ask_nameserver
    from rocketeer.model.data_version import DataVersion
    from rocketeer.protocol.bodies.register import encode_registration
    from rocketeer.protocol.codes import RequestCode
    from rocketeer.protocol.headers.nameserver import RegisterBrokerHeader

    header = RegisterBrokerHeader("broker-dead", address, "DefaultCluster", 0)
    body = encode_registration({}, DataVersion(1, 1))
    return ask_nameserver(admin.context(), RequestCode.REGISTER_BROKER, header, body)


def _unregister(admin: Admin, address: str):  # type: ignore[no-untyped-def]
    from rocketeer.admin.plans.asking import ask_nameserver
    from rocketeer.protocol.codes import RequestCode
    from rocketeer.protocol.headers.nameserver import BrokerIdentityHeader

    header = BrokerIdentityHeader("broker-dead", address, "DefaultCluster", 0)
    return ask_nameserver(admin.context(), RequestCode.UNREGISTER_BROKER, header)


def test_the_names_are_where_the_others_are() -> None:
    assert rocketeer.Admin is Admin
    assert "Admin" in rocketeer.__all__
