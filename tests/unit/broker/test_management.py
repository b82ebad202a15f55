"""Laws of the management requests, asked over a real connection: replies, remarks, and who hears of what."""

from rocketeer.broker.clients import EXPIRY_MS
from rocketeer.broker.locks import LOCK_LIFE_MS
from rocketeer.errors import RocketeerError
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SQL92, Subscription
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.clients import decode_consumer_list
from rocketeer.protocol.bodies.groups import decode_group_table, encode_group
from rocketeer.protocol.bodies.heartbeat import (
    ClientCheck,
    encode_client_check,
)
from rocketeer.protocol.bodies.locks import LockRequest, decode_locked_queues, encode_lock_request
from rocketeer.protocol.bodies.topics import decode_topic_table
from rocketeer.protocol.codes import ResponseCode
from support.management_broker import assert_reply, heartbeat, management_broker

CREATE = {"topic": "T", "readQueueNums": "4", "writeQueueNums": "2", "perm": "6", "order": "true"}


# --- clients ---------------------------------------------------------------------------------


async def test_a_heartbeat_makes_the_group_its_retry_topic_and_a_notice() -> None:
    async with management_broker() as ours:
        first = await ours.peer()
        ours.groups.put(SubscriptionGroup("G", retry_queues=3))
        assert_reply(await first.ask(34, body=heartbeat("c1", "G", "H")))
        assert first.notices == ["G", "H"]
        assert ours.topics.get("%RETRY%G") == TopicConfig("%RETRY%G", 3, 3, 6)
        assert ours.topics.get("%RETRY%H") == TopicConfig("%RETRY%H", 1, 1, 6)
        second = await ours.peer()
        await second.ask(34, body=heartbeat("c2", "G"))
        first.notices.clear()
        assert await first.told() == "G"
        answer = await first.ask(38, {"consumerGroup": "G"})
        assert_reply(answer)
        assert decode_consumer_list(answer.body) == ["c1", "c2"]


async def test_a_group_nobody_consumes_in_is_refused_by_name() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        answer = await peer.ask(38, {"consumerGroup": "CG_nobody"})
        assert_reply(answer, ResponseCode.SYSTEM_ERROR, "no consumer for this group, CG_nobody")


async def test_a_goodbye_and_a_closed_connection_are_told_to_those_who_stay() -> None:
    async with management_broker() as ours:
        peers = [await ours.peer() for _ in range(3)]
        for number, peer in enumerate(peers):
            await peer.ask(34, body=heartbeat(f"c{number}", "G"))
        last = peers[2]
        assert await last.told() == "G", "its own coming"
        assert_reply(await peers[0].ask(35, {"clientID": "c0", "consumerGroup": "G", "producerGroup": "PG"}))
        assert await last.told() == "G"
        peers[1].close()
        assert await last.told() == "G"
        assert decode_consumer_list((await last.ask(38, {"consumerGroup": "G"})).body) == ["c2"]


async def test_a_silent_client_is_closed_and_the_others_hear_of_it() -> None:
    async with management_broker() as ours:
        silent, alive = await ours.peer(), await ours.peer()
        await silent.ask(34, body=heartbeat("c1", "G"))
        await alive.ask(34, body=heartbeat("c2", "G"))
        ours.clock.advance(ms=EXPIRY_MS)
        await alive.ask(34, body=heartbeat("c2", "G"))
        alive.notices.clear()
        ours.clock.advance(ms=1)
        await ours.clients.scan()
        assert await alive.told() == "G"
        assert await silent.closed()


async def test_a_group_that_wants_no_notices_gets_none() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        ours.groups.put(SubscriptionGroup("G", notify_consumer_ids_changed_enable=False))
        await peer.ask(34, body=heartbeat("c1", "G"))
        ours.clients.enable_notices(False)
        await peer.ask(34, body=heartbeat("c1", "H"))
        await peer.ask(38, {"consumerGroup": "G"})
        assert peer.notices == []


async def test_a_body_that_is_no_heartbeat_is_answered_and_costs_nothing_else() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        for body in (b"", b"not json", b"[]", b"{}"):
            for code in (34, 41, 42, 46, 200):
                answer = await peer.ask(code, body=body)
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert answer.remark


async def test_a_tag_filter_is_always_possible_another_as_its_compiler_says() -> None:
    def check(kind: str, expression: str) -> None:
        assert kind == SQL92
        if expression != "a > 5":
            raise RocketeerError(f"no sense in {expression}")

    def body(kind: str, expression: str) -> bytes:
        return encode_client_check(ClientCheck("c", "G", Subscription("T", expression, kind)))

    async with management_broker() as plain, management_broker(check_expression=check) as clever:
        peer = await plain.peer()
        assert_reply(await peer.ask(46, body=body("TAG", "*")))
        assert_reply(
            await peer.ask(46, body=body(SQL92, "a > 5")),
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92",
        )
        peer = await clever.peer()
        assert_reply(await peer.ask(46, body=body(SQL92, "a > 5")))
        answer = await peer.ask(46, body=body(SQL92, "a > > 5"))
        assert_reply(answer, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "no sense in a > > 5")


# --- offsets ---------------------------------------------------------------------------------


async def test_a_committed_offset_is_found_again() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        where = {"consumerGroup": "G", "topic": "T", "queueId": "1"}
        assert_reply(await peer.ask(15, {**where, "commitOffset": "7"}))
        assert_reply(await peer.ask(14, where), offset="7")
        assert ours.offsets.take_dirty()


async def test_a_new_group_starts_at_zero_only_where_a_queue_still_has_its_warm_beginning() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        where = {"consumerGroup": "G", "topic": "T", "queueId": "0"}
        assert_reply(await peer.ask(14, where), offset="0")  # even for an unknown topic
        ours.store.cold = True
        not_found = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        assert_reply(await peer.ask(14, where), ResponseCode.QUERY_NOT_FOUND, not_found)
        ours.store.cold = False
        ours.store.ends["T", 0] = (5, 9)
        assert_reply(await peer.ask(14, where), ResponseCode.QUERY_NOT_FOUND, not_found)


async def test_the_ends_of_a_queue_are_the_stores() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        ours.store.ends["T", 0] = (5, 9)
        where, nowhere = {"topic": "T", "queueId": "0"}, {"topic": "NoSuchTopic", "queueId": "0"}
        assert_reply(await peer.ask(30, where), offset="9")
        assert_reply(await peer.ask(31, where), offset="5")
        assert_reply(await peer.ask(29, {**where, "timestamp": "6"}), offset="6")
        assert_reply(await peer.ask(32, where), timestamp="1000")
        assert_reply(await peer.ask(30, nowhere), offset="0")
        assert_reply(await peer.ask(31, nowhere), offset="0")
        assert_reply(await peer.ask(32, nowhere), timestamp="-1")


async def test_a_request_without_its_queue_is_refused_by_the_fields_name() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        for queue in ({}, {"queueId": "abc"}):
            answer = await peer.ask(30, {"topic": "T", **queue})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "queueId" in (answer.remark or "")


# --- topics and groups -----------------------------------------------------------------------


async def test_a_topic_is_created_announced_listed_and_deleted() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        assert_reply(await peer.ask(17, CREATE), remark="not set any response code")
        assert ours.topics.get("T") == TopicConfig("T", 4, 2, 6, order=False), "order is not taken over"
        assert ours.announced == ["T"]
        answer = await peer.ask(21)
        assert_reply(answer)
        assert decode_topic_table(answer.body).configs == ours.topics.configs
        assert_reply(await peer.ask(215, {"topic": "T"}))
        assert ours.topics.get("T") is None
        assert ours.store.deleted == ["T"]
        assert_reply(await peer.ask(215, {"topic": "NoSuchTopic"}))


async def test_system_topics_and_bad_names_and_bad_numbers_are_refused() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        for name in ("TBW102", "broker-a", "DefaultCluster_REPLY_TOPIC"):
            remark = f"The topic[{name}] is conflict with system topic."
            assert_reply(await peer.ask(17, {**CREATE, "topic": name}), 1, remark)
            assert_reply(await peer.ask(215, {"topic": name}), 1, remark)
        remark = "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        assert_reply(await peer.ask(17, {**CREATE, "topic": "bad topic"}), 1, remark)
        for number in ("-1", "65536"):
            assert (await peer.ask(17, {**CREATE, "readQueueNums": number})).code == 1
        assert ours.announced == []


async def test_a_group_is_created_listed_and_deleted_with_its_offsets() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        group = SubscriptionGroup("G", retry_max=3)
        assert_reply(await peer.ask(200, body=encode_group(group)))
        answer = await peer.ask(201)
        assert_reply(answer)
        assert decode_group_table(answer.body).groups["G"] == group
        ours.offsets.commit("G", "T", 0, 5)
        assert_reply(await peer.ask(207, {"groupName": "G"}))
        assert ours.groups.get("G") is None
        assert ours.offsets.query("G", "T", 0) == 5
        assert_reply(await peer.ask(207, {"groupName": "G", "removeOffset": "true"}))
        assert ours.offsets.query("G", "T", 0) is None


# --- locks -----------------------------------------------------------------------------------


async def test_a_locked_queue_is_not_given_to_another_until_unlocked_or_expired() -> None:
    queues = frozenset(MessageQueue("T", "broker-a", number) for number in range(2))

    async with management_broker() as ours:
        peer = await ours.peer()

        async def lock(client: str) -> frozenset[MessageQueue]:
            answer = await peer.ask(41, body=encode_lock_request(LockRequest("G", client, queues)))
            assert_reply(answer)
            return decode_locked_queues(answer.body)

        assert await lock("a") == queues
        assert await lock("b") == frozenset()
        assert_reply(await peer.ask(42, body=encode_lock_request(LockRequest("G", "a", queues))))
        assert await lock("b") == queues
        ours.clock.advance(ms=LOCK_LIFE_MS + 1)
        assert await lock("a") == queues
