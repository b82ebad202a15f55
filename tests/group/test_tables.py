"""What consumers committed, and what was made of topics and groups, outlives the leader as messages do."""

from pathlib import Path

from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.cluster import TEST_CONF
from support.grouped import TOPIC, Ledger
from support.senders import wait_for


def commit(address: str, offset: int) -> int:
    fields = {"consumerGroup": "CG", "topic": TOPIC, "queueId": "1", "commitOffset": str(offset)}
    with Control(address) as broker:
        return broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code


def committed(address: str) -> int:
    fields = {"consumerGroup": "CG", "topic": TOPIC, "queueId": "1"}
    with Control(address) as broker:
        answer = broker.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        return int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else -1


def test_commits_and_topics_outlive_the_leader_and_nobody_else_takes_them(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            pass
        for offset in (40, 7, 23):  # a reset may go backwards
            assert commit(leader.address, offset) == ResponseCode.SUCCESS
        topic = {"topic": "Made", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6", "defaultTopic": "TBW102",
                 "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip
        with Control(leader.address) as broker:
            broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
        for member in group.members:
            wait_for(lambda member=member: committed(member.address) == 23, what=f"member {member.number}")
        follower = next(each for each in group.members if each is not leader)
        assert commit(follower.address, 5) == ResponseCode.SERVICE_NOT_AVAILABLE
        leader.kill()
        now = group.wait_for_leader(other_than=leader)
        assert committed(now.address) == 23
        with Control(now.address) as broker:
            assert b'"Made"' in broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body
        ledger.assert_holds(now.address)
        for member in group.members:  # everything at once: what was answered is in the log of each
            member.kill()
        for member in group.members:
            member.start()
        now = group.wait_for_leader()
        wait_for(lambda: committed(group.wait_for_leader().address) == 23, what="the offset, after all died")
        ledger.assert_holds(group.wait_for_leader().address)
