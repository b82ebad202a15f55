"""Every command of mqadmin, run against a real cluster of two brokers."""

import csv
import json
import time
from pathlib import Path

import pytest

from rocketeer import Admin, Message, Producer, PullConsumer, SubscriptionGroup, TopicConfig
from rocketeer.cli.admin import commands
from rocketeer.cli.admin.arguments import common_options
from rocketeer.cli.admin.declare import ALIASES, COMMANDS
from support.mqadmin import Mqadmin
from support.two_brokers import TwoBrokers

from .conftest import Shop, wait_until

commands.load()


# --- the list -------------------------------------------------------------------------------------


def test_every_command_and_option_of_4_9_8_is_there() -> None:
    with (Path(__file__).parent / "data" / "commands_4.9.8.tsv").open() as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    assert {row["command"] for row in rows} == set(COMMANDS)
    assert {row["alias"] for row in rows if row["alias"] != "-"} == set(ALIASES)
    for row in rows:
        if row["short"] == "-":
            continue
        command = COMMANDS[row["command"]]
        options = [each.option for each in command.parameters] + list(common_options(command))
        names = {(f"-{option.short}", f"--{option.long}"): option for option in options}
        option = names.get((row["short"], row["long"]))
        assert option is not None, f"{row['command']} lacks {row['short']} {row['long']}"
        assert option.flag == (row["arg"] == "flag"), f"{row['command']} {row['short']}"
        required = {each.option.long for each in command.parameters if each.required}
        assert (row["long"].removeprefix("--") in required) == (row["required"] == "required"), (
            row["command"],
            row["long"],
        )


# --- clusters and brokers -------------------------------------------------------------------------


def test_clusterList(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    first, second = mqadmin.json("clusterList")
    assert (first["broker"], first["address"], second["broker"]) == ("broker-a", pair.broker, "broker-b")
    assert 0 < first["diskRatio"] < 1
    assert first["version"].startswith("V")
    more = mqadmin("clusterList", "-m").rows
    assert [row[:2] for row in more[1:]] == [["DefaultCluster", "broker-a"], ["DefaultCluster", "broker-b"]]
    rounds = mqadmin("clusterList", "-i", "0.01", "--rounds", "3").lines
    assert len(rounds) == 1 + 3 * 2


def test_brokerStatus(mqadmin: Mqadmin, pair: TwoBrokers, shop: Shop) -> None:
    values = mqadmin.json("brokerStatus", "-b", pair.broker)
    assert int(values["commitLogMaxOffset"]) > 0
    both = mqadmin.json("brokerStatus", "-c", "DefaultCluster")
    assert set(both) == {pair.broker, pair.second}
    lines = mqadmin("brokerStatus", "-b", pair.broker).lines
    assert lines == sorted(lines)


def test_getBrokerConfig(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    lines = mqadmin("getBrokerConfig", "-b", pair.broker).lines
    assert lines[0] == f"============{pair.broker}============"
    assert mqadmin.json("getBrokerConfig", "-b", pair.second)[pair.second]["brokerName"] == "broker-b"
    assert (
        f"============Master: {pair.second}============"
        in mqadmin("getBrokerConfig", "-c", "DefaultCluster").lines
    )


def test_updateBrokerConfig(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    key = "maxTransferCountOnMessageInMemory"
    assert mqadmin("updateBrokerConfig", "-c", "DefaultCluster", "-k", key, "-v", 33).lines == [
        f"update broker config success, {pair.broker}",
        f"update broker config success, {pair.second}",
    ]
    for address in (pair.broker, pair.second):
        assert mqadmin.json("getBrokerConfig", "-b", address)[address][key] == "33"
    refused = mqadmin.run("updateBrokerConfig", "-b", pair.broker, "-k", "noSuchKey", "-v", 1)
    assert refused.code == 1
    assert "noSuchKey" in refused.err


def test_brokerConsumeStats(mqadmin: Mqadmin, pair: TwoBrokers, shop: Shop) -> None:
    lines = mqadmin("brokerConsumeStats", "-b", pair.broker).lines
    rows = [line.split() for line in lines if line.startswith(f"{shop.topic} ")]
    assert {row[1] for row in rows} >= {shop.group}
    assert lines[-1].startswith("Diff Total: ")
    found = mqadmin.json("brokerConsumeStats", "-b", pair.broker, "-l", "1", "-t", "10000")
    assert all(each["lag"] >= 1 for each in found["queues"])


def test_cleanExpiredCQ(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    assert mqadmin("cleanExpiredCQ", "-c", "DefaultCluster", "--yes").lines == ["success"]
    assert mqadmin.json("cleanExpiredCQ", "-b", pair.second, "--yes") == {"done": [pair.second]}


def test_deleteExpiredCommitLog(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    assert mqadmin("deleteExpiredCommitLog", "-b", pair.broker, "--yes").lines == ["success"]


def test_cleanUnusedTopic(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    assert mqadmin("cleanUnusedTopic", "-b", pair.broker, "--yes").lines == ["success"]


def test_wipeWritePerm_and_addWritePerm(mqadmin: Mqadmin, pair: TwoBrokers, topic: str) -> None:
    (line,) = mqadmin("wipeWritePerm", "-b", "broker-b", "--yes").lines
    assert line.startswith(f"wipe write perm of broker[broker-b] in name server[{pair.namesrv}] OK, ")
    perms = {row[1]: row[5] for row in mqadmin("topicRoute", "-t", topic, "-l").rows[1:3]}
    assert perms == {"broker-a": "6", "broker-b": "4"}
    (line,) = mqadmin("addWritePerm", "-b", "broker-b").lines
    assert line.startswith(f"add write perm of broker[broker-b] in name server[{pair.namesrv}] OK, ")


def test_clusterRT(mqadmin: Mqadmin) -> None:
    ran = mqadmin("clusterRT", "-a", 2, "-s", 16, "-i", "0.01", "--rounds", 2)
    assert ran.rows[0] == ["#Cluster", "Name", "#Broker", "Name", "#RT", "#successCount", "#failCount"]
    assert [[row[1], *row[3:]] for row in ran.rows[1:]] == [
        ["broker-a", "2", "0"],
        ["broker-b", "2", "0"],
    ] * 2
    log = mqadmin("clusterRT", "-a", 1, "-p", "true", "-m", "room1", "--rounds", 1).lines
    assert log[0].split("|")[1:4] == ["room1", "DefaultCluster", "broker-a"]


def test_startMonitoring(mqadmin: Mqadmin, shop: Shop) -> None:
    assert mqadmin("startMonitoring", "--rounds", 1, "-l", 10**9, "-d", 1.0).out.endswith(
        "nothing is wrong\n"
    )
    (disk, *_) = [
        each for each in mqadmin.json("startMonitoring", "--rounds", 1, "-d", 0.0) if each["kind"] == "disk"
    ]
    assert "is" in disk["finding"]
    assert "full" in disk["finding"]


# --- topics ---------------------------------------------------------------------------------------


def test_topicList(mqadmin: Mqadmin, topic: str, shop: Shop) -> None:
    assert topic in mqadmin("topicList").lines
    rows = mqadmin("topicList", "-c").rows
    assert rows[0] == ["#Cluster", "Name", "#Topic", "#Consumer", "Group"]
    assert ["DefaultCluster", shop.topic, shop.group] in rows
    assert ["DefaultCluster", topic] in rows


def test_topicRoute(mqadmin: Mqadmin, pair: TwoBrokers, topic: str) -> None:
    text = mqadmin("topicRoute", "-t", topic).out
    assert f'"brokerAddrs":{{0:"{pair.second}"' in text
    rows = mqadmin("topicRoute", "-t", topic, "-l").rows
    assert rows[1:3] == [
        ["DefaultCluster", "broker-a", f"{{0={pair.broker}}}", "2", "2", "6"],
        ["DefaultCluster", "broker-b", f"{{0={pair.second}}}", "2", "2", "6"],
    ]
    assert rows[4] == ["Total:", "2", "4", "4"]
    assert {each["broker"] for each in mqadmin.json("topicRoute", "-t", topic)["queues"]} == {
        "broker-a",
        "broker-b",
    }


def test_topicStatus(mqadmin: Mqadmin, shop: Shop) -> None:
    rows = mqadmin.json("topicStatus", "-t", shop.topic)
    assert [(row["broker"], row["queueId"]) for row in rows] == [
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
    ]  # fmt: skip
    assert sum(row["maxOffset"] - row["minOffset"] for row in rows) >= 12
    assert all(row["lastUpdated"] > time.time() * 1000 - 600_000 for row in rows if row["maxOffset"])


def test_topicClusterList(mqadmin: Mqadmin, topic: str) -> None:
    assert mqadmin("topicClusterList", "-t", topic).lines == ["DefaultCluster"]


def test_updateTopic(mqadmin: Mqadmin, admin: Admin, pair: TwoBrokers, name: str) -> None:
    assert mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", 3, "-w", 3, "-p", 4).lines == [
        f"create topic to {pair.broker} success.",
        f"create topic to {pair.second} success.",
        f"TopicConfig [topicName={name}, readQueueNums=3, writeQueueNums=3, perm=R--, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false]",
    ]
    assert (
        mqadmin("updateTopic", "-b", pair.second, "-t", name, "-o", "true", "-u", "true", "-s", "true").lines[
            0
        ]
        == "set broker orderConf. isOrder=true, orderConf=[broker-b:8]"
    )
    config = admin.topic_configs(broker=pair.second).answers.popitem()[1][name]  # type: ignore[attr-defined]
    assert config == TopicConfig(name, 8, 8, 6, sys_flag=3)  # that it is ordered comes from the name server


def test_updateTopicPerm(mqadmin: Mqadmin, pair: TwoBrokers, topic: str) -> None:
    assert mqadmin("updateTopicPerm", "-c", "DefaultCluster", "-t", topic, "-p", 4).lines == [
        f"update topic perm from 6 to 4 in {pair.broker} success.",
        f"update topic perm from 6 to 4 in {pair.second} success.",
    ]
    assert mqadmin("updateTopicPerm", "-b", pair.broker, "-t", topic, "-p", 6).lines[0] == (
        f"update topic perm from 4 to 6 in {pair.broker} success."
    )


def test_deleteTopic(mqadmin: Mqadmin, admin: Admin, topic: str) -> None:
    assert mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", topic, "--yes").lines == [
        f"delete topic [{topic}] from cluster [DefaultCluster] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    assert not admin.topic_exists(topic)


def test_updateOrderConf(mqadmin: Mqadmin, topic: str) -> None:
    mqadmin("updateOrderConf", "-t", topic, "-m", "put", "-v", "broker-a:2")
    assert mqadmin.json("updateOrderConf", "-t", topic, "-m", "get")["orderConf"] == "broker-a:2"
    mqadmin("updateOrderConf", "-t", topic, "-m", "delete")
    assert "no order configuration" in mqadmin.run("updateOrderConf", "-t", topic, "-m", "get").err


def test_allocateMQ(mqadmin: Mqadmin, topic: str) -> None:
    shares = json.loads(mqadmin("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2,10.0.0.3").out)["result"]
    assert [len(share) for share in shares.values()] == [2, 1, 1]


def test_statsAll(mqadmin: Mqadmin, shop: Shop, topic: str) -> None:
    rows = {(row["topic"], row["group"]): row for row in mqadmin.json("statsAll")}
    assert rows[shop.topic, shop.group]["lag"] == 0
    assert rows[topic, None]["out24h"] is None
    assert mqadmin("statsAll", "-t", topic).lines[1].split() == [topic, "0", "0.00", "0", "NO_CONSUMER"]
    assert len(mqadmin("statsAll", "-a", "-t", topic).lines) == 1
    assert len(mqadmin("statsAll", "-t", topic, "-i", "0.01", "--rounds", 2).lines) == 3


# --- consumer groups ------------------------------------------------------------------------------


def test_consumerProgress(
    mqadmin: Mqadmin, shop: Shop, producer: Producer, pair: TwoBrokers, topic: str
) -> None:
    rows = {row["group"]: row for row in mqadmin.json("consumerProgress")}
    assert (rows[shop.group]["members"], rows[shop.group]["lag"]) == (1, 0)
    assert rows[shop.group]["type"] == "CONSUME_PASSIVELY"
    one = mqadmin.json("consumerProgress", "-g", shop.group, "-s", "true")
    assert one["lag"] == 0
    assert {each["clientIp"] for each in one["queues"]} == {shop.client_id.partition("@")[0]}
    assert mqadmin("consumerProgress", "-g", shop.group).lines[-1] == "Diff Total: 0"


def test_a_group_that_nobody_knows_has_no_lag_of_0(mqadmin: Mqadmin, name: str) -> None:
    ran = mqadmin.run("consumerProgress", "-g", name)
    assert (ran.code, ran.out) == (1, "")
    assert f"no broker knows the group '{name}'" in ran.err
    mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", name)
    assert mqadmin.json("consumerProgress", "-g", name)["lag"] == 0


def test_the_lag_of_a_group_that_is_offline_is_shown(
    mqadmin: Mqadmin, producer: Producer, pair: TwoBrokers, topic: str
) -> None:
    for _ in range(5):
        producer.send(Message(topic, b"x"))
    with PullConsumer(topic, nameserver=pair.namesrv) as consumer:
        for queue in consumer.queues(topic):
            consumer.commit(queue, 0)
    found = mqadmin.json("consumerProgress", "-g", topic)
    assert (found["lag"], found["members"]) == (5, 0)


def test_consumerConnection(mqadmin: Mqadmin, shop: Shop) -> None:
    found = mqadmin.json("consumerConnection", "-g", shop.group)
    assert [each["clientId"] for each in found["connections"]] == [shop.client_id]
    assert found["subscriptions"][shop.topic] == "created || paid"
    assert found["messageModel"] == "CLUSTERING"
    offline = mqadmin.run("consumerConnection", "-g", "nobody-here")
    assert (offline.code, offline.err.count("\n")) == (1, 1)
    assert "not online" in offline.err


def test_consumerStatus(
    mqadmin: Mqadmin, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = mqadmin("consumerStatus", "-g", shop.group).lines
    path = Path(lines[1].split()[-1])
    assert "#Consumer Offset#" in path.read_text()
    assert "Same subscription in the same group of consumer" in lines
    # The second broker's retry queue is taken up at the next rebalance after it is known.
    wait_until(lambda: "Rebalance OK" in mqadmin("consumerStatus", "-g", shop.group).lines, timeout_s=60)
    one = mqadmin("consumerStatus", "-g", shop.group, "-i", shop.client_id, "-s").out
    assert "#Consumer jstack#" in one
    assert f"{shop.topic:<32}  broker-a" in one


def test_getConsumerConfig(mqadmin: Mqadmin, admin: Admin, name: str) -> None:
    admin.update_group(SubscriptionGroup(name, retry_max=3), cluster="DefaultCluster")
    found = mqadmin.json("getConsumerConfig", "-g", name)
    assert {broker: values["retryMaxTimes"] for broker, values in found.items()} == {
        "broker-a": 3,
        "broker-b": 3,
    }
    assert "no broker has" in mqadmin.run("getConsumerConfig", "-g", f"{name}-not").err


def test_updateSubGroup_and_deleteSubGroup(
    mqadmin: Mqadmin, admin: Admin, pair: TwoBrokers, name: str
) -> None:
    ran = mqadmin(
        "updateSubGroup", "-c", "DefaultCluster", "-g", name, "-s", "false", "-m", "true", "-d", "true", "-q", 2,
        "-r", 5, "-i", 1, "-w", 2, "-a", "false",
    )  # fmt: skip
    assert ran.lines[:2] == [
        f"create subscription group to {pair.broker} success.",
        f"create subscription group to {pair.second} success.",
    ]
    wanted = SubscriptionGroup(name, False, True, True, 2, 5, 1, 2, False)
    assert [table[name] for _, table in admin.group_configs()] == [wanted, wanted]
    assert mqadmin("deleteSubGroup", "-b", pair.broker, "-g", name, "--yes").lines == [
        f"delete subscription group [{name}] from broker [{pair.broker}] success."
    ]
    lines = mqadmin("deleteSubGroup", "-c", "DefaultCluster", "-g", name, "-r", "true", "--yes").lines
    assert lines[-1] == f"delete topic [%DLQ%{name}] from NameServer success."
    assert [name in table for _, table in admin.group_configs()] == [False, False]


# --- offsets --------------------------------------------------------------------------------------


def test_resetOffsetByTime_of_a_running_group(mqadmin: Mqadmin, admin: Admin, shop: Shop) -> None:
    lines = mqadmin("resetOffsetByTime", "-g", shop.group, "-t", shop.topic, "-s", "now", "--yes").lines
    assert lines[0].endswith("force[true], timestamp(string)[now], timestamp(long)[-1]")
    assert lines[1].split() == ["#brokerName", "#queueId", "#offset"]
    assert len(lines) == 2 + 4
    assert sum(int(line.split()[2]) for line in lines[2:]) >= len(shop.sent)


def test_resetOffsetByTime_of_an_offline_group(
    mqadmin: Mqadmin, admin: Admin, producer: Producer, pair: TwoBrokers, topic: str
) -> None:
    for _ in range(4):
        producer.send(Message(topic, b"x"))
    with PullConsumer(topic, nameserver=pair.namesrv) as consumer:
        for queue in consumer.queues(topic):
            consumer.commit(queue, 1)
    rows = mqadmin("resetOffsetByTime", "-g", topic, "-t", topic, "-s", "1000", "--yes").rows
    assert [row[5] for row in rows[2:]] == ["0"] * 4
    assert admin.group_progress(topic, topic).lag == 4
    found = mqadmin.json("skipAccumulatedMessage", "-g", topic, "-t", topic, "--yes")
    assert not found["online"]
    assert admin.group_progress(topic, topic).lag == 0


def test_skipAccumulatedMessage_of_a_running_group(mqadmin: Mqadmin, shop: Shop) -> None:
    rows = mqadmin("skipAccumulatedMessage", "-g", shop.group, "-t", shop.topic, "--yes").rows
    assert rows[0] == ["#brokerName", "#queueId", "#offset"]
    assert sum(int(row[2]) for row in rows[1:]) >= len(shop.sent)


def test_cloneGroupOffset(mqadmin: Mqadmin, admin: Admin, shop: Shop, name: str) -> None:
    words = ["cloneGroupOffset", "-s", shop.group, "-d", name, "-t", shop.topic, "-o", "true"]
    assert mqadmin(*words).lines == [
        f"clone group offset success. srcGroup[{shop.group}], destGroup=[{name}], topic[{shop.topic}]"
    ]
    assert admin.group_progress(name, shop.topic).lag == 0


# --- producers ------------------------------------------------------------------------------------


def test_producerConnection(mqadmin: Mqadmin, shop: Shop) -> None:
    rows = mqadmin("producerConnection", "-g", "PG_shop", "-t", shop.topic).rows
    assert rows[0][0] == "0001"
    assert rows[0][3] == "PYTHON"
    assert "not exist" in mqadmin.run("producerConnection", "-g", "nobody", "-t", shop.topic).err


def test_producer(mqadmin: Mqadmin, pair: TwoBrokers, shop: Shop) -> None:
    found = mqadmin.json("producer", "-b", pair.broker)
    assert found["PG_shop"][0]["language"] == "PYTHON"
    assert mqadmin("producer", "-b", pair.broker).out.count("producer group (PG_shop)") == 1


# --- messages -------------------------------------------------------------------------------------


def test_sendMessage(mqadmin: Mqadmin, admin: Admin, topic: str) -> None:
    ran = mqadmin(
        "sendMessage", "-t", topic, "-p", "hello there", "-k", "k", "-c", "T", "-b", "broker-b", "-i", 1
    )
    broker, queue_id, status, message_id = ran.rows[1]
    assert (broker, queue_id, status) == ("broker-b", "1", "SEND_OK")
    (found,) = admin.messages_with_id(topic, message_id)
    assert (found.body, found.tags, found.keys) == (b"hello there", "T", ["k"])
    assert (
        "has queues 0 to 1"
        in mqadmin.run("sendMessage", "-t", topic, "-p", "x", "-b", "broker-a", "-i", 7).err
    )
    assert "give -b too" in mqadmin.run("sendMessage", "-t", topic, "-p", "x", "-i", 1).err


def test_sendMsgStatus(mqadmin: Mqadmin) -> None:
    lines = mqadmin("sendMsgStatus", "-b", "broker-a", "-s", 32, "-c", 3).lines
    assert len(lines) == 3
    assert all("SendResult [sendStatus=SEND_OK" in line for line in lines)


def test_checkMsgSendRT(mqadmin: Mqadmin, topic: str) -> None:
    ran = mqadmin("checkMsgSendRT", "-t", topic, "-a", 5, "-s", 16)
    assert [row[:3] for row in ran.rows[1:6]] == [
        ["broker-a", "0", "true"], ["broker-a", "1", "true"], ["broker-b", "0", "true"], ["broker-b", "1", "true"],
        ["broker-a", "0", "true"],
    ]  # fmt: skip
    assert ran.lines[-1].startswith("Avg RT: ")


def test_queryMsgById(mqadmin: Mqadmin, shop: Shop) -> None:
    sent = shop.sent[0]
    (found,) = mqadmin.json("queryMsgById", "-i", sent.offset_message_id)
    assert (found["messageId"], found["body"]) == (sent.message_id, "order 0")
    assert Path(found["bodyPath"]).read_text() == "order 0"
    assert {"group": shop.group, "state": "CONSUMED", "reason": None} in found["tracks"]
    ran = mqadmin("queryMsgById", "-i", sent.offset_message_id, "-g", shop.group, "-d", shop.client_id)
    assert ran.out.startswith(
        "ConsumeMessageDirectlyResult [order=false, autoCommit=true, consumeResult=CR_SUCCESS"
    )
    again = mqadmin.json("queryMsgById", "-i", sent.offset_message_id, "-s", "true", "-u", "unit")
    assert again[0]["original"] == sent.offset_message_id


def test_queryMsgByUniqueKey(mqadmin: Mqadmin, shop: Shop) -> None:
    sent = shop.sent[1]
    lines = mqadmin("queryMsgByUniqueKey", "-t", shop.topic, "-i", sent.message_id).lines
    assert lines[0] == f"Topic:               {shop.topic}"
    assert len(mqadmin.json("queryMsgByUniqueKey", "-t", shop.topic, "-i", sent.message_id, "-a")) == 1
    words = [
        "queryMsgByUniqueKey",
        "-t",
        shop.topic,
        "-i",
        sent.message_id,
        "-g",
        shop.group,
        "-d",
        shop.client_id,
    ]
    assert mqadmin.json(*words)[0]["result"] == "CR_SUCCESS"
    missing = mqadmin.run("queryMsgByUniqueKey", "-t", shop.topic, "-i", "0" * 32)
    assert missing.err == f"mqadmin: no message with id {'0' * 32} in topic '{shop.topic}'\n"


def test_queryMsgByKey(mqadmin: Mqadmin, shop: Shop) -> None:
    (row,) = mqadmin.json("queryMsgByKey", "-t", shop.topic, "-k", "key3")
    assert row["messageId"] == shop.sent[3].message_id
    ran = mqadmin.run("queryMsgByKey", "-t", shop.topic, "-k", "nowhere")
    assert (ran.code, ran.out, ran.err) == (1, "", "mqadmin: no message of Orders has the key 'nowhere'\n")


def test_queryMsgByOffset(mqadmin: Mqadmin, shop: Shop) -> None:
    queue, offset = shop.sent[2].queue, shop.sent[2].queue_offset
    words = ["queryMsgByOffset", "-t", shop.topic, "-b", queue.broker_name, "-i", queue.queue_id]
    (found,) = mqadmin.json(*words, "-o", offset)
    assert found["messageId"] == shop.sent[2].message_id
    assert "no message at offset 99999" in mqadmin.run(*words, "-o", 99999).err


def test_queryMsgTraceById(mqadmin: Mqadmin, admin: Admin, shop: Shop) -> None:
    sent = shop.sent[4].message_id
    wait_until(lambda: {each.kind for each in admin.message_trace(sent)} >= {"Pub", "SubBefore", "SubAfter"})
    rows = {each["type"]: each for each in mqadmin.json("queryMsgTraceById", "-i", sent)}
    assert (rows["Pub"]["group"], rows["Sub"]["group"]) == ("PG_shop", shop.group)
    assert rows["Sub"]["status"] == "success"
    assert "is tracing on" in mqadmin.run("QueryMsgTraceById", "-i", "0" * 32).err


def test_queryCq(mqadmin: Mqadmin, pair: TwoBrokers, shop: Shop) -> None:
    found = mqadmin.json("queryCq", "-t", shop.topic, "-q", 0, "-i", 0, "-c", 2, "-b", pair.broker)
    assert found["entries"][0]["size"] > 0
    lines = mqadmin("queryCq", "-t", shop.topic, "-q", 0, "-i", 0, "-g", shop.group).lines
    assert "Queue data: " in lines


def test_printMsg(mqadmin: Mqadmin, shop: Shop) -> None:
    lines = mqadmin("printMsg", "-t", shop.topic, "-s", "created").lines
    assert sum(line.startswith("MSGID: ") for line in lines) >= 12
    assert sum(line.endswith("BODY: order 5") for line in lines) == 1
    bodies = [each["body"] for each in mqadmin.json("printMsg", "-t", shop.topic)]
    assert set(bodies) == {f"order {number}" for number in range(12)}
    assert not any(" BODY: " in line for line in mqadmin("printMsg", "-t", shop.topic, "-d", "false").lines)
    assert mqadmin.json("printMsg", "-t", shop.topic, "-e", "1000") == []
    assert "no time" in mqadmin.run("printMsg", "-t", shop.topic, "-b", "yesterday").err


def test_printMsgByQueue(mqadmin: Mqadmin, shop: Shop) -> None:
    words = ["printMsgByQueue", "-t", shop.topic, "-a", "broker-a", "-i", 0]
    count = len(mqadmin.json(*words))
    lines = mqadmin(*words, "-p", "true", "-d", "true", "-f", "true").lines
    assert len(lines) == count + 1
    assert lines[-1] == f"Tag: {'created':<30} Count: {count}"
    assert mqadmin(*words, "--print msg", "true").out.count("MSGID") == count
    assert "has no queue 9" in mqadmin.run(*words[:-1], 9).err


def test_consumeMessage(mqadmin: Mqadmin, shop: Shop) -> None:
    lines = mqadmin("consumeMessage", "-t", shop.topic, "-b", "broker-a", "-i", 0, "-o", 1, "-c", 1).lines
    assert lines[:2] == ["The oldler 1 message will be provided", "Consume ok"]
    assert len(lines) == 3
    assert len(mqadmin.json("consumeMessage", "-t", shop.topic, "-c", 1, "-g", "TOOLS_CONSUMER")) == 4
    assert "-b and -i" in mqadmin.run("consumeMessage", "-t", shop.topic, "-o", 1).err


# --- name servers ---------------------------------------------------------------------------------


def test_updateKvConfig_and_deleteKvConfig(mqadmin: Mqadmin, admin: Admin, name: str) -> None:
    assert mqadmin("updateKvConfig", "-s", name, "-k", "a", "-v", "b").lines == [
        "create or update kv config to namespace success."
    ]
    assert admin.get_kv(name, "a") == "b"
    assert mqadmin("deleteKvConfig", "-s", name, "-k", "a", "--yes").lines == [
        "delete kv config from namespace success."
    ]
    assert admin.get_kv(name, "a") is None


def test_getNamesrvConfig_and_updateNamesrvConfig(mqadmin: Mqadmin, pair: TwoBrokers) -> None:
    assert mqadmin("updateNamesrvConfig", "-k", "clusterTest", "-v", "false").lines == [
        f"update name server config success![{pair.namesrv}]",
        "clusterTest : false",
    ]
    assert mqadmin.json("getNamesrvConfig")[pair.namesrv]["clusterTest"] == "false"


# --- access: the brokers' answer is reported --------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("updateAclConfig", "-a", "somebody", "-s", "12345678", "-t", "T=PUB", "-g", "G=SUB", "-m", "false"),
        ("deleteAclConfig", "-a", "somebody", "--yes"),
        ("deleteAccessConfig", "-a", "somebody", "--yes"),
        ("clusterAclConfigVersion",),
        ("updateGlobalWhiteAddr", "-g", "10.0.0.*"),
    ],
)
def test_access_commands_report_what_the_broker_says(
    words: tuple[str, ...], mqadmin: Mqadmin, pair: TwoBrokers
) -> None:
    ran = mqadmin.run(*words, "-b", pair.broker)
    # Without ACL a broker refuses; the sentence says which broker and with which code.
    assert ran.code == 1
    assert pair.broker in ran.err
    assert ran.err.count("\n") == 1


# --- export ---------------------------------------------------------------------------------------


def test_exportMetadata(mqadmin: Mqadmin, pair: TwoBrokers, tmp_path: Path, topic: str) -> None:
    assert mqadmin("exportMetadata", "-c", "DefaultCluster", "-f", tmp_path).lines == [
        f"export {tmp_path}/metadata.json success"
    ]
    found = json.loads((tmp_path / "metadata.json").read_text())
    assert found["topicConfigTable"][topic]["writeQueueNums"] == 4
    assert not any(name.startswith("%") for name in found["topicConfigTable"])
    mqadmin("exportMetadata", "-b", pair.broker, "-f", tmp_path, "-t", "-s")
    assert json.loads((tmp_path / "topic.json").read_text())["topicConfigTable"][topic]["writeQueueNums"] == 2
    mqadmin("exportMetadata", "-b", pair.broker, "-f", tmp_path, "-g")
    assert "subscriptionGroupTable" in json.loads((tmp_path / "subscriptionGroup.json").read_text())


def test_exportConfigs(mqadmin: Mqadmin, tmp_path: Path) -> None:
    mqadmin("exportConfigs", "-c", "DefaultCluster", "-f", tmp_path)
    found = json.loads((tmp_path / "configs.json").read_text())
    assert found["clusterScale"] == {"namesrvSize": 1, "slaveBrokerSize": 0, "masterBrokerSize": 2}
    assert found["brokerConfigs"]["broker-b"]["brokerRole"] == "ASYNC_MASTER"


def test_exportMetrics(mqadmin: Mqadmin, shop: Shop, tmp_path: Path) -> None:
    mqadmin("exportMetrics", "-c", "DefaultCluster", "-f", tmp_path)
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert set(found["evaluateReport"]) == {"broker-a", "broker-b"}
    clients = found["evaluateReport"]["broker-a"]["runtimeVersion"]["clientInfo"]
    assert any(each.startswith("PYTHON%V") for each in clients)
