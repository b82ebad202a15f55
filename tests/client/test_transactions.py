"""Transaction producers against a running broker that asks after a fraction of a second; or, with
ROCKETEER_PEER=apache, against Apache's."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from rocketeer import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Message,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
    aio,
)
from rocketeer.bench.control import Control
from rocketeer.client.core.transactions import Verdict
from rocketeer.errors import BrokerRefused, ClientError, ConfigError
from rocketeer.model.message import InvalidMessage
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.flags import TX_COMMIT
from rocketeer.record.layout import StoredMessage
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.consuming import make_topic, until, until_sync
from support.records import sent_body
from support.senders import read_topic

ASIDE = "TRANS_CHECK_MAX_TIME_TOPIC"
CONF = {"transactionTimeOut": 300, "transactionCheckInterval": 300, "transactionCheckMax": 3}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make(), conf=CONF) as running:
        yield running


@pytest.fixture
def group(topic: str) -> str:
    return f"PG-{topic}"


def delivered(cluster: ServerCluster, topic: str) -> list[StoredMessage]:
    return [message for queue in read_topic(cluster.broker, topic) for message in queue]


def bodies(cluster: ServerCluster, topic: str) -> list[bytes]:
    return sorted(message.body for message in delivered(cluster, topic))


def wait_for_bodies(cluster: ServerCluster, topic: str, expected: list[bytes]) -> None:
    until_sync(lambda: len(delivered(cluster, topic)) >= len(expected), f"{expected} in {topic}")
    assert bodies(cluster, topic) == sorted(expected)


def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError(f"asked after {message!r}")


def test_a_committed_message_is_delivered_and_a_rolled_back_one_is_not(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    seen: list[Transaction] = []

    def local(transaction: Transaction) -> Verdict:
        seen.append(transaction)
        verdict: Verdict = transaction.arg
        return verdict

    with TransactionProducer(group, nameserver=cluster.namesrv, check=never) as producer:
        rolled_back = producer.send_in_transaction(Message(topic, b"no"), local, arg=ROLLBACK)
        committed = producer.send_in_transaction(
            Message(topic, b"yes", tags="t", keys="k"), local, arg=COMMIT
        )  # type: ignore[arg-type]
    assert (rolled_back.state, committed.state) == (TransactionState.ROLLBACK, TransactionState.COMMIT)
    assert committed.ok
    assert [each.id for each in seen] == [rolled_back.message_id, committed.message_id]
    assert seen[1].message.body == b"yes"
    wait_for_bodies(cluster, topic, [b"yes"])
    (message,) = delivered(cluster, topic)
    assert (message.uniq_key, message.tags, message.keys) == (committed.message_id, "t", "k")
    assert message.sys_flag == TX_COMMIT
    assert message.queue_id == committed.queue.queue_id


def test_what_is_unknown_is_asked_until_it_is_known(cluster: ServerCluster, topic: str, group: str) -> None:
    answers: dict[bytes, list[Verdict]] = {
        b"yes": [UNKNOWN, COMMIT],
        b"no": [None, ROLLBACK],
        b"raises": [None, COMMIT],
    }
    asked: list[ReceivedMessage] = []

    def check(message: ReceivedMessage) -> Verdict:
        asked.append(message)
        left = answers[message.body]
        if message.body == b"raises" and len(left) == 2:
            left.pop(0)
            raise RuntimeError("the database is down")
        return left.pop(0)

    with TransactionProducer(group, nameserver=cluster.namesrv, check=check) as producer:
        ids = [
            producer.send_in_transaction(Message(topic, body, keys="k"), lambda t: None).message_id
            for body in answers
        ]
        until_sync(lambda: not any(answers.values()), "all were asked twice")
        wait_for_bodies(cluster, topic, [b"yes", b"raises"])
    assert {message.message_id for message in asked} == set(ids)
    assert {message.topic for message in asked} == {topic}
    assert {message.broker_name for message in asked} == {"broker-a"}
    assert asked[0].keys == ["k"]


def test_an_error_in_the_local_transaction_is_raised_and_leaves_it_open(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    asked = threading.Event()

    def check(message: ReceivedMessage) -> TransactionState:
        asked.set()
        return TransactionState.COMMIT

    def local(transaction: Transaction) -> None:
        raise LookupError("no such account")

    with TransactionProducer(group, nameserver=cluster.namesrv, check=check) as producer:
        with pytest.raises(LookupError, match="no such account"):
            producer.send_in_transaction(Message(topic, b"open"), local)
        assert asked.wait(30), "the broker asks, since nobody knows"
        wait_for_bodies(cluster, topic, [b"open"])


def test_a_mate_of_the_group_answers_for_one_that_died(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    """The mate never sends: it says which topics' brokers shall know it."""
    make_topic(cluster, topic)
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        return TransactionState.COMMIT if int(message.body) % 2 else TransactionState.ROLLBACK

    def dont_know(message: ReceivedMessage) -> Verdict:
        return UNKNOWN

    with TransactionProducer(group, nameserver=cluster.namesrv, check=check, topics=[topic]):
        with TransactionProducer(group, nameserver=cluster.namesrv, check=dont_know) as dying:
            results = [
                dying.send_in_transaction(Message(topic, b"%d" % n), lambda t: UNKNOWN) for n in range(5)
            ]
        wait_for_bodies(cluster, topic, [b"1", b"3"])
        until_sync(lambda: len(set(asked)) >= 5, "all were asked after")
    assert set(asked) == {result.message_id for result in results}


@pytest.mark.skipif(
    chosen_make() == "apache", reason="RocketMQ counts the times nobody was there to be asked"
)
def test_with_no_member_alive_the_message_waits(cluster: ServerCluster, topic: str, group: str) -> None:
    with TransactionProducer(group, nameserver=cluster.namesrv, check=never) as dying:
        dying.send_in_transaction(Message(topic, b"late"), lambda t: UNKNOWN, immune_s=1)
    with Control(cluster.broker) as broker:
        before = broker.max_offset(ASIDE, 0)
        threading.Event().wait(2.5)  # more rounds than it may be asked after
        assert broker.max_offset(ASIDE, 0) == before
    with TransactionProducer(group, nameserver=cluster.namesrv, check=lambda m: COMMIT, topics=[topic]):
        wait_for_bodies(cluster, topic, [b"late"])


def test_one_nobody_knows_anything_of_is_set_aside(cluster: ServerCluster, topic: str, group: str) -> None:
    asked: list[str] = []

    def check(message: ReceivedMessage) -> None:
        asked.append(message.message_id)

    def given_up() -> list[str | None]:
        with Control(cluster.broker) as broker:
            if not broker.max_offset(ASIDE, 0):
                return []
        return [message.uniq_key for message in read_topic(cluster.broker, ASIDE, 1)[0]]

    with TransactionProducer(group, nameserver=cluster.namesrv, check=check) as producer:
        result = producer.send_in_transaction(Message(topic, b"?"), lambda t: UNKNOWN)
        until_sync(lambda: result.message_id in given_up(), "it is given up")
        # Apache's asks in another thread than it gives up: the last question may still be on its way.
        until_sync(lambda: len(asked) >= CONF["transactionCheckMax"])
        assert len(asked) == CONF["transactionCheckMax"]
        assert delivered(cluster, topic) == []


def test_the_message_comes_compressed_and_with_its_flag(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    big = b"x" * 10_000
    with TransactionProducer(group, nameserver=cluster.namesrv, check=lambda m: COMMIT) as producer:
        producer.send_in_transaction(Message(topic, big, flag=7), lambda t: COMMIT)
        asked = producer.send_in_transaction(Message(topic, big, flag=7), lambda t: UNKNOWN)
        until_sync(lambda: len(delivered(cluster, topic)) == 2, "both are delivered")
    messages = delivered(cluster, topic)
    assert [sent_body(message) for message in messages] == [big, big]
    assert asked.message_id in {message.uniq_key for message in messages}
    if chosen_make() == "ours":  # RocketMQ loses the flag when it asks
        assert [message.flag for message in messages] == [7, 7]


def test_a_namespace_is_the_producers_own_business(cluster: ServerCluster, topic: str, group: str) -> None:
    asked: list[ReceivedMessage] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        return TransactionState.COMMIT

    with TransactionProducer(group, nameserver=cluster.namesrv, namespace="shop", check=check) as producer:
        producer.send_in_transaction(Message(topic, b"ns"), lambda t: UNKNOWN)
        wait_for_bodies(cluster, f"shop%{topic}", [b"ns"])
    assert asked[0].topic == topic


async def test_on_asyncio_local_and_check_may_be_coroutines(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    loop = asyncio.get_running_loop()
    asked: list[str] = []

    async def check(message: ReceivedMessage) -> TransactionState:
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
        asked.append(message.text)
        return TransactionState.COMMIT

    async def local(transaction: Transaction) -> Verdict:
        await asyncio.sleep(0)
        verdict: Verdict = transaction.arg
        return verdict

    def in_a_thread(transaction: Transaction) -> TransactionState:
        assert threading.current_thread() is not threading.main_thread()
        return TransactionState.COMMIT

    def read() -> list[bytes]:
        return bodies(cluster, topic)

    async with aio.TransactionProducer(group, nameserver=cluster.namesrv, check=check) as producer:
        states = [
            (await producer.send_in_transaction(Message(topic, body), local, arg=arg)).state  # type: ignore[arg-type]
            for body, arg in ((b"now", COMMIT), (b"never", ROLLBACK), (b"asked", UNKNOWN))
        ]
        assert [state.name for state in states] == ["COMMIT", "ROLLBACK", "UNKNOWN"]
        await producer.send_in_transaction(Message(topic, b"threaded"), in_a_thread)
        with pytest.raises(ZeroDivisionError):
            await producer.send_in_transaction(Message(topic, b"raised"), lambda t: 1 // 0)  # type: ignore[arg-type]
        await until(lambda: len(asked) >= 2, "both open ones are asked after")
        expected = sorted([b"now", b"threaded", b"asked", b"raised"])
        for _ in range(400):
            if await asyncio.to_thread(read) == expected:
                break
            await asyncio.sleep(0.05)
        assert await asyncio.to_thread(read) == expected


async def test_two_groups_of_one_instance_are_each_asked_for_their_own(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    asked: dict[str, list[str]] = {"a": [], "b": []}

    def checks(name: str) -> aio.TransactionProducer:
        def check(message: ReceivedMessage) -> TransactionState:
            asked[name].append(message.text)
            return TransactionState.ROLLBACK

        return aio.TransactionProducer(
            f"{group}-{name}", nameserver=cluster.namesrv, instance_name=group, check=check
        )

    async with checks("a") as first, checks("b") as second:
        await first.send_in_transaction(Message(topic, b"of a"), lambda t: None)
        await second.send_in_transaction(Message(topic, b"of b"), lambda t: None)
        await until(lambda: bool(asked["a"] and asked["b"]), "both are asked")
    assert (set(asked["a"]), set(asked["b"])) == ({"of a"}, {"of b"})


def test_what_cannot_be_sent_in_a_transaction_is_refused_before_anything_is_sent(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    with pytest.raises(ClientError, match="has no check"):
        TransactionProducer(group, nameserver=cluster.namesrv)
    with pytest.raises(ConfigError, match="check_concurrency"):
        TransactionProducer(group, nameserver=cluster.namesrv, check=never, check_concurrency=0)
    with TransactionProducer(group, nameserver=cluster.namesrv, check=never) as producer:
        with pytest.raises(InvalidMessage, match="cannot be delayed"):
            producer.send_in_transaction(Message(topic, b"x", delay_level=3), lambda t: COMMIT)
        with pytest.raises(InvalidMessage, match="cannot have a DEDUP_ID"):
            producer.send_in_transaction(Message(topic, b"x", properties={"DEDUP_ID": "1"}), lambda t: COMMIT)
        with pytest.raises(InvalidMessage, match="one Message"):
            producer.send_in_transaction([Message(topic, b"x")], lambda t: COMMIT)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessage, match="immune_s"):
            producer.send_in_transaction(Message(topic, b"x"), lambda t: COMMIT, immune_s=-1)
        producer.send(Message(topic, b"plain"))
    assert bodies(cluster, topic) == [b"plain"]


@pytest.mark.skipif(chosen_make() == "apache", reason="RocketMQ delivers again for every commit it gets")
def test_the_wrong_end_of_a_transaction_changes_nothing(
    cluster: ServerCluster, topic: str, group: str
) -> None:
    """Ended twice, in the wrong group, at the wrong place, of a message that never was."""
    with TransactionProducer(group, nameserver=cluster.namesrv, check=never) as producer:
        plain = producer.send(Message(topic, b"plain"))
        half = producer.send_in_transaction(Message(topic, b"half"), lambda t: UNKNOWN, immune_s=60)
        right = {
            "producerGroup": group,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(int(half.offset_message_id[16:], 16)),
            "commitOrRollback": "8",
        }
        plain_at = {
            "commitLogOffset": str(int(plain.offset_message_id[16:], 16)),
            "tranStateTableOffset": "0",
        }
        wrong: list[tuple[dict[str, str], str]] = [
            ({"producerGroup": "somebody"}, "The producer group wrong"),
            ({"tranStateTableOffset": "987654"}, "The transaction state table offset wrong"),
            ({"commitLogOffset": "999999999"}, "Find prepared transaction message failed"),
            ({"commitLogOffset": "-1"}, "Find prepared transaction message failed"),
            (
                {"commitLogOffset": str(int(right["commitLogOffset"]) + 3)},
                "Find prepared transaction message failed",
            ),
            (plain_at, "Find prepared transaction message failed"),
            ({"commitOrRollback": "5"}, "commitOrRollback is 5"),
            ({"commitLogOffset": "nonsense"}, "commitLogOffset"),
            ({"commitOrRollback": str(1 << 40)}, "commitOrRollback"),
        ]
        with Control(cluster.broker) as broker:
            for change, remark in wrong:
                answer = broker.call(RequestCode.END_TRANSACTION, {**right, **change})
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert remark in (answer.remark or "")
            assert bodies(cluster, topic) == [b"plain"]
            assert broker.call(RequestCode.END_TRANSACTION, {**right, "commitOrRollback": "0"}).code == 0
            assert broker.call(RequestCode.END_TRANSACTION, right).code == 0
            for verdict in ("8", "12"):
                again = broker.call(RequestCode.END_TRANSACTION, {**right, "commitOrRollback": verdict})
                assert again.code == ResponseCode.SYSTEM_ERROR
                assert "ended before" in (again.remark or "")
        assert bodies(cluster, topic) == [b"half", b"plain"]


def test_a_broker_may_reject_transactions(tmp_path_factory: pytest.TempPathFactory) -> None:
    conf = {"rejectTransactionMessage": "true"}
    with (
        running_cluster(tmp_path_factory.mktemp("rejecting"), peer=chosen_make(), conf=conf) as rejecting,
        TransactionProducer("PG", nameserver=rejecting.namesrv, check=never, retries=0) as producer,
    ):
        with pytest.raises(BrokerRefused, match="sending transaction message is forbidden") as refused:
            producer.send_in_transaction(Message("T", b"x"), lambda t: COMMIT)
        assert refused.value.code == ResponseCode.NO_PERMISSION
