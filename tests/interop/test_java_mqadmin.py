"""Apache's mqadmin 4.9.8 runs all its commands against our cluster of two brokers, judged by what it prints.

None is refused but those about ACL files, which a broker without ACL does not have.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Admin, Message, Producer, PushConsumer, ReceivedMessage, SendResult, TopicConfig
from support.java_mqadmin import JavaMqadmin, tool_environment
from support.peers import java_peer
from support.two_brokers import TwoBrokers, two_brokers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC, GROUP = "Orders", "billing"
RUN: set[str] = set()
"""The commands that were run: the last test compares them with the tool's own list."""


class Shop:
    def __init__(self, pair: TwoBrokers, sent: list[SendResult], client_id: str) -> None:
        self.pair = pair
        self.sent = sent
        self.client_id = client_id


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with two_brokers(tmp_path_factory.mktemp("pair")) as pair, Admin(pair.namesrv) as admin:
        admin.update_topic(TopicConfig(TOPIC, 2, 2), cluster="DefaultCluster")
        consumer = PushConsumer(GROUP, nameserver=pair.namesrv, trace=True)
        seen: list[str] = []

        @consumer.subscribe(TOPIC)
        def bill(message: ReceivedMessage) -> None:
            seen.append(message.message_id)

        with consumer, Producer("PG_shop", nameserver=pair.namesrv, trace=True) as producer:
            sent = [
                producer.send(Message(TOPIC, f"order {number}".encode(), tags="created", keys=f"key{number}"))
                for number in range(12)
            ]
            end_s = time.monotonic() + 60
            while len(seen) < 12 or admin.group_progress(GROUP, TOPIC).lag:
                assert time.monotonic() < end_s
                time.sleep(0.1)
            yield Shop(pair, sent, consumer.client_id)


@pytest.fixture(scope="module")
def tool(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaMqadmin]:
    tool = JavaMqadmin(tmp_path_factory.mktemp("mqadmin"), shop.pair.namesrv)
    yield tool
    tool.close()


def run(tool: JavaMqadmin, *words: object) -> str:
    RUN.add(str(words[0]))
    return tool(*words)


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()]


def test_clusters_and_brokers(tool: JavaMqadmin, shop: Shop) -> None:
    pair = shop.pair
    found = {row[1]: row for row in rows(run(tool, "clusterList")) if row and row[0] == "DefaultCluster"}
    assert found["broker-a"][3] == pair.broker
    assert found["broker-b"][4].startswith("V")
    assert "broker-b" in run(tool, "clusterList", "-m")
    status = dict(
        line.split(":", 1)
        for line in run(tool, "brokerStatus", "-b", pair.broker).splitlines()
        if ":" in line
    )
    values = {name.strip(): value.strip() for name, value in status.items()}
    assert int(values["commitLogMaxOffset"]) > 0
    assert int(values["msgPutTotalTodayNow"]) > 0
    assert "brokerName" in run(tool, "getBrokerConfig", "-b", pair.broker)
    assert f"Master: {pair.second}" in run(tool, "getBrokerConfig", "-c", "DefaultCluster")
    changed = run(
        tool, "updateBrokerConfig", "-b", pair.broker, "-k", "maxTransferCountOnMessageInMemory", "-v", 33
    )
    assert "update broker config success" in changed
    config = run(tool, "getBrokerConfig", "-b", pair.broker)
    assert re.search(r"maxTransferCountOnMessageInMemory\s+=\s+33", config)
    assert "Diff Total: " in run(tool, "brokerConsumeStats", "-b", pair.broker)
    for command in ("cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"):
        assert "success" in run(tool, command, "-b", pair.second)
    assert "OK, " in run(tool, "wipeWritePerm", "-b", "broker-b")
    assert "OK, " in run(tool, "addWritePerm", "-b", "broker-b")


def test_topics(tool: JavaMqadmin, shop: Shop, tmp_path: Path) -> None:
    pair = shop.pair
    assert TOPIC in run(tool, "topicList").splitlines()
    assert ["DefaultCluster", TOPIC, GROUP] in rows(run(tool, "topicList", "-c"))
    assert f'0:"{pair.second}"' in run(tool, "topicRoute", "-t", TOPIC)
    status = [
        row for row in rows(run(tool, "topicStatus", "-t", TOPIC)) if row and row[0].startswith("broker-")
    ]
    assert sum(int(row[3]) - int(row[2]) for row in status) == 12
    assert run(tool, "topicClusterList", "-t", TOPIC).split() == ["DefaultCluster"]
    made = run(tool, "updateTopic", "-c", "DefaultCluster", "-t", "Made", "-r", 2, "-w", 2)
    assert made.count("success") == 2
    assert "from 6 to 4" in run(tool, "updateTopicPerm", "-c", "DefaultCluster", "-t", "Made", "-p", 4)
    assert "success" in run(tool, "updateOrderConf", "-t", "Made", "-m", "put", "-v", "broker-a:2")
    assert "broker-a:2" in run(tool, "updateOrderConf", "-t", "Made", "-m", "get")
    assert "success" in run(tool, "updateOrderConf", "-t", "Made", "-m", "delete")
    assert "success" in run(tool, "deleteTopic", "-t", "Made", "-c", "DefaultCluster")
    assert "10.0.0.2" in run(tool, "allocateMQ", "-t", TOPIC, "-i", "10.0.0.1,10.0.0.2")
    line = next(row for row in rows(run(tool, "statsAll", "-t", TOPIC)) if row[:2] == [TOPIC, GROUP])
    assert line[2] == "0"
    assert int(line[5]) >= 12, "messages of the last 24 hours"


def test_groups(tool: JavaMqadmin, shop: Shop) -> None:
    listed = next(row for row in rows(run(tool, "consumerProgress")) if row and row[0] == GROUP)
    assert (listed[1], listed[-1]) == ("1", "0")
    progress = run(tool, "consumerProgress", "-g", GROUP, "-s", "true")
    assert "Diff Total: 0" in progress
    assert sum(int(row[4]) for row in rows(progress) if row and row[0] == TOPIC) == 12
    connection = run(tool, "consumerConnection", "-g", GROUP)
    assert shop.client_id in connection
    assert "MessageModel: CLUSTERING" in connection
    status = run(tool, "consumerStatus", "-g", GROUP)
    assert "Rebalance OK" in status
    assert "#Consumer Offset#" in run(tool, "consumerStatus", "-g", GROUP, "-i", shop.client_id, "-s")
    made = run(tool, "updateSubGroup", "-c", "DefaultCluster", "-g", "MadeGroup", "-r", 3)
    assert made.count("success") == 2
    assert re.search(r"retryMaxTimes\s+=\s+3", run(tool, "getConsumerConfig", "-g", "MadeGroup"))
    assert "success" in run(tool, "deleteSubGroup", "-c", "DefaultCluster", "-g", "MadeGroup")


def test_producers(tool: JavaMqadmin, shop: Shop) -> None:
    assert "PYTHON" in run(tool, "producerConnection", "-g", "PG_shop", "-t", TOPIC)
    assert "PG_shop" in run(tool, "producer", "-b", shop.pair.broker)


def test_messages(tool: JavaMqadmin, shop: Shop) -> None:
    first = shop.sent[0]
    shown = run(tool, "queryMsgById", "-i", first.offset_message_id)
    assert f"Topic:               {TOPIC}" in shown
    assert f"consumerGroup={GROUP}, trackType=CONSUMED" in shown
    consumed = run(tool, "queryMsgById", "-i", first.offset_message_id, "-g", GROUP, "-d", shop.client_id)
    assert "CR_SUCCESS" in consumed
    assert "Keys:                [key0]" in run(
        tool, "queryMsgByUniqueKey", "-t", TOPIC, "-i", first.message_id
    )
    assert first.message_id in run(tool, "queryMsgByKey", "-t", TOPIC, "-k", "key0")
    queue = first.queue
    words = ["-t", TOPIC, "-b", queue.broker_name, "-i", queue.queue_id, "-o", first.queue_offset]
    assert f"Queue Offset:        {first.queue_offset}" in run(tool, "queryMsgByOffset", *words)
    end_s = time.monotonic() + 60
    while "Sub" not in (trace := tool.run("queryMsgTraceById", "-i", first.message_id)):
        assert time.monotonic() < end_s, trace
        time.sleep(1)
    RUN.add("queryMsgTraceById")
    assert run(tool, "printMsg", "-t", TOPIC).count("MSGID: ") == 12
    by_queue = run(
        tool, "printMsgByQueue", "-t", TOPIC, "-a", queue.broker_name, "-i", queue.queue_id, "-p", "true"
    )
    assert by_queue.count("MSGID: ") >= 1
    assert "max: " in run(tool, "queryCq", "-t", TOPIC, "-q", 0, "-i", 0, "-c", 2, "-b", shop.pair.broker)
    assert "SEND_OK" in run(tool, "sendMessage", "-t", TOPIC, "-p", "from mqadmin")
    assert "Consume ok" in run(tool, "consumeMessage", "-t", TOPIC, "-c", 1)
    assert run(tool, "sendMsgStatus", "-b", "broker-a", "-c", 2).count("SEND_OK") == 2
    assert "Avg RT" in run(tool, "checkMsgSendRT", "-t", TOPIC, "-a", 2)


def test_offsets(tool: JavaMqadmin, shop: Shop) -> None:
    reset = run(tool, "resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "now")
    assert sum(int(row[2]) for row in rows(reset) if row and row[0].startswith("broker-")) >= 12
    skipped = run(tool, "skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC)
    assert sum(int(row[2]) for row in rows(skipped) if row and row[0].startswith("broker-")) >= 12
    cloned = run(tool, "cloneGroupOffset", "-s", GROUP, "-d", "copied", "-t", TOPIC, "-o", "true")
    assert "clone group offset success" in cloned


def test_name_servers(tool: JavaMqadmin, shop: Shop) -> None:
    assert "success" in run(tool, "updateKvConfig", "-s", "NS", "-k", "a", "-v", "b")
    assert "success" in run(tool, "deleteKvConfig", "-s", "NS", "-k", "a")
    assert "listenPort" in run(tool, "getNamesrvConfig")
    assert "success" in run(tool, "updateNamesrvConfig", "-k", "clusterTest", "-v", "false")


def test_exports(tool: JavaMqadmin, shop: Shop, tmp_path: Path) -> None:
    for command, name in (
        ("exportMetadata", "metadata"),
        ("exportConfigs", "configs"),
        ("exportMetrics", "metrics"),
    ):
        assert "success" in run(tool, command, "-c", "DefaultCluster", "-f", tmp_path)
        assert json.loads((tmp_path / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("words", "sign"),
    [(["clusterRT", "-a", "2", "-s", "16", "-i", "1"], "broker-b"), (["startMonitoring"], "")],
)
def test_what_goes_on_for_ever_goes_on(words: list[str], sign: str, shop: Shop, tmp_path: Path) -> None:
    RUN.add(words[0])
    command = java_peer(tmp_path, "org.apache.rocketmq.tools.command.MQAdminStartup").command
    process = subprocess.Popen(
        [*command, *words, "-n", shop.pair.namesrv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=tool_environment(tmp_path),
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(15)
    finally:
        process.kill()
    printed = process.communicate()[0]
    assert sign in printed
    assert "Exception" not in printed


def test_acl_commands_are_the_only_ones_that_are_refused(tool: JavaMqadmin, shop: Shop) -> None:
    for words in (
        ("updateAclConfig", "-a", "somebody", "-s", "12345678"),
        ("deleteAclConfig", "-a", "somebody"),
        ("clusterAclConfigVersion",),
        ("updateGlobalWhiteAddr", "-g", "10.0.0.*"),
    ):
        RUN.add(words[0])
        assert "CODE: " in tool.run(*words, "-b", shop.pair.broker)


def test_these_were_all_its_commands(tool: JavaMqadmin) -> None:
    help_text = tool.run()
    listed = set(re.findall(r"^ {3}(\w+) ", help_text, re.MULTILINE))
    assert len(listed) == 56, help_text
    assert listed - RUN == set()
