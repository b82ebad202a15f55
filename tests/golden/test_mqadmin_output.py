"""Our commands print what RocketMQ 4.9.8's mqadmin printed, given what its servers answered then."""

import json
import re
from pathlib import Path

import pytest

from rocketeer.cli.admin.program import run
from support.mqadmin_replay import WIRE, Replay, replaying

Lines = list[str]

# The same lines in the same order.
SAME = [
    "addWritePerm",
    "brokerStatus",
    "brokerStatus_cluster",
    "cleanExpiredCQ",
    "cleanExpiredCQ_cluster",
    "cleanUnusedTopic",
    "cloneGroupOffset",
    "clusterAclConfigVersion",
    "clusterAclConfigVersion_cluster",
    "clusterList_m",
    "consumeMessage_queue",
    "consumerConnection",
    "consumerProgress_group",
    "consumerProgress_ip",
    "deleteAclConfig",
    "deleteExpiredCommitLog",
    "deleteKvConfig",
    "deleteSubGroup",
    "deleteTopic",
    "getConsumerConfig",
    "producerConnection",
    "queryCq",
    "queryCq_group",
    "queryMsgByKey",
    "queryMsgByUniqueKey_consume",
    "queryMsgById_consume",
    "queryMsgTraceById",
    "topicClusterList",
    "topicRoute",
    "topicRoute_list",
    "topicStatus",
    "updateBrokerConfig",
    "updateBrokerConfig_cluster",
    "updateGlobalWhiteAddr",
    "updateKvConfig",
    "updateNamesrvConfig",
    "updateOrderConf_delete",
    "updateOrderConf_get",
    "updateOrderConf_put",
    "updateSubGroup",
    "updateTopic",
    "updateTopicPerm",
    "updateTopicPerm_broker",
    "wipeWritePerm",
]
# The same lines; Java's order is that of its hash tables.
SAME_SORTED = [
    "getBrokerConfig",
    "getBrokerConfig_cluster",
    "getNamesrvConfig",
    "resetOffsetByTime",
    "resetOffsetByTime_ts",
    "skipAccumulatedMessage",
    "topicList",
]


def shown(replay: Replay, capsys: pytest.CaptureFixture[str]) -> Lines:
    """What our command prints, with the recorded addresses; it must succeed."""
    code = run([*replay.words, *(["--yes"] if _is_dangerous(replay) else [])], "mqadmin")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return replay.recorded(printed.out).splitlines()


def _is_dangerous(replay: Replay) -> bool:
    from rocketeer.cli.admin.program import find

    return find(replay.words[0]).danger is not None


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording machine's time zone."""
    import time

    from rocketeer.cli.admin import commands

    commands.load()
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("name", SAME)
def test_the_output_is_the_recorded_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with replaying(f"admin_{name}") as replay:
        assert shown(replay, capsys) == replay.lines


@pytest.mark.parametrize("name", SAME_SORTED)
def test_the_output_is_the_recorded_one_in_any_order(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with replaying(f"admin_{name}") as replay:
        assert sorted(shown(replay, capsys)) == sorted(replay.lines)


def columns_of(line: str) -> Lines:
    return re.split(r"\s{1,}", line.strip())


def test_the_cluster_list_has_the_recorded_columns_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    with replaying("admin_clusterList") as replay:
        lines = shown(replay, capsys)
    assert lines[0] == replay.lines[0]
    ours, theirs = columns_of(lines[1]), columns_of(replay.lines[1])
    # Java takes "no message yet" (-1) for a time and shows the hours since 1970; we show that there is none.
    assert (theirs.pop(8), ours.pop(8)) == ("498536.12", "-")
    assert ours == theirs


def test_an_ordered_topic_is_made_as_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    with replaying("admin_updateTopic_order") as replay:
        lines = shown(replay, capsys)
    # The recorded tool also prints a stack trace, and no end of line behind its first sentence.
    assert lines[0].startswith("set broker orderConf. isOrder=true, orderConf=[")
    assert lines[1] == "create topic to 127.0.0.1:10911 success."
    assert lines[2] == replay.lines[-1]


def test_messages_are_printed_as_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    with replaying("admin_printMsgByQueue") as replay:
        lines = shown(replay, capsys)
    messages = [line for line in replay.lines if line.startswith("MSGID")]
    assert lines[: len(messages)] == messages
    assert sorted(lines[len(messages) :]) == sorted(replay.lines[len(messages) :])


@pytest.mark.parametrize("name", ["queryMsgById", "queryMsgByOffset", "queryMsgByUniqueKey"])
def test_a_message_is_described_as_recorded(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with replaying(f"admin_{name}") as replay:
        lines = shown(replay, capsys)
    theirs = [line for line in replay.lines[:15] if not line.startswith("Message Body Path")]
    ours = [line for line in lines[:15] if not line.startswith("Message Body Path")]
    assert ours == theirs
    (path,) = [line.split()[-1] for line in lines if line.startswith("Message Body Path")]
    assert Path(path).read_bytes()
    recorded = re.findall(r"consumerGroup=(\w+), trackType=(\w+)", "\n".join(replay.lines))
    tracks = dict(re.findall(r"consumerGroup=(\w+), trackType=(\w+)", "\n".join(lines)))
    assert set(tracks) == {group for group, _ in recorded}


def shares(text: str) -> dict[str, int]:
    return {member: len(queues) for member, queues in json.loads(text)["result"].items()}


def test_queues_are_handed_out_as_evenly(capsys: pytest.CaptureFixture[str]) -> None:
    with replaying("admin_allocateMQ") as replay:
        (line,) = shown(replay, capsys)
        (recorded,) = replay.lines
    # Java deals them out in the order of its hash table; members themselves sort them, and so do we.
    assert shares(line) == shares(recorded)
    assert json.loads(line)["result"]["10.0.0.1"][0] == {
        "brokerName": "broker-a",
        "queueId": 0,
        "topic": "TopicTest",
    }


@pytest.mark.parametrize("what", ["metadata", "configs", "metrics"])
def test_the_exported_file_says_the_same(
    what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with replaying(f"admin_export{what.capitalize()}") as replay:
        words = [str(tmp_path) if word == "/home/rocketmq/export" else word for word in replay.words]
        assert run(words, "mqadmin") == 0, capsys.readouterr().err
    assert capsys.readouterr().out == f"export {tmp_path}/{what}.json success\n"
    ours = json.loads((tmp_path / f"{what}.json").read_text())
    theirs = json.loads((WIRE / "export" / f"{what}.json").read_text())
    for each in (ours, theirs):
        each.pop("exportTime", None)
    if what == "metrics":  # figures of the moment; of the groups' members the recording kept the first only
        assert ours["evaluateReport"]["broker-a"].keys() == theirs["evaluateReport"]["broker-a"].keys()
        quota, recorded = (each["evaluateReport"]["broker-a"]["runtimeQuota"] for each in (ours, theirs))
        assert {**quota, "tps": 0} == {**recorded, "tps": 0}
        return
    assert ours == theirs


def test_a_missing_topic_and_a_missing_message_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (
        ("topicRoute_missing", "NoSuchTopic"),
        ("queryMsgById_missing", "can not find message"),
    ):
        with replaying(f"admin_{name}") as replay:
            assert run(replay.words, "mqadmin") == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert said in printed.err
        assert printed.err.count("\n") == 1
