"""The templates of the load generator make requests that the protocol layer reads back."""

import pytest

from rocketeer.bench.frames import (
    FIRST_NUMBER,
    PER_BATCH,
    STAMP_WIDTH,
    PullRequests,
    Requests,
    SendTarget,
    message_key,
)
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, decode_frame
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.record.batch import iter_batch
from rocketeer.record.properties import decode_properties
from rocketeer.security.credentials import Credentials
from rocketeer.security.signature import checking_signature, signed_content
from rocketeer.steps import finish

TARGET = SendTarget(("bench4_0000", "bench4_0001", "bench4_0002"), 4)


def commands(data: bytes) -> list[Command]:
    return [decode_frame(*frame) for frame in FrameSplitter().feed(data)]


def test_every_send_is_a_whole_request_with_its_own_keys() -> None:
    requests = Requests(run=7, connection=3, target=TARGET, body_bytes=100)
    data = requests.make(FIRST_NUMBER, [0] * 50)
    found = commands(data)
    properties = [decode_properties(command.ext["i"].encode()) for command in found]

    assert [command.code for command in found] == [RequestCode.SEND_MESSAGE_V2] * 50
    assert [command.opaque for command in found] == [*range(FIRST_NUMBER, FIRST_NUMBER + 50)]
    assert all(len(command.body) == 100 for command in found)
    assert len({p["KEYS"] for p in properties}) == 50
    assert len({p["UNIQ_KEY"] for p in properties}) == 50
    assert {len(p["UNIQ_KEY"]) for p in properties} == {32}, "as long as a real client's"
    assert properties[5]["KEYS"] == message_key(7, 3, FIRST_NUMBER + 5) == requests.key(FIRST_NUMBER + 5)


def test_sends_visit_every_queue_of_every_topic_in_turn() -> None:
    data = Requests(run=1, connection=0, target=TARGET, body_bytes=32).make(FIRST_NUMBER, [0] * 24)
    places = [(command.ext["b"], int(command.ext["e"])) for command in commands(data)]
    assert places == [TARGET.of(FIRST_NUMBER + number) for number in range(24)]
    assert len(set(places)) == 12
    assert set(places) == {(topic, queue) for topic in TARGET.topics for queue in range(4)}


def test_a_batch_holds_32_messages_with_their_own_keys() -> None:
    requests = Requests(run=1, connection=0, target=TARGET, body_bytes=64, batch=True)
    data = requests.make(FIRST_NUMBER, [0, 0])
    first, second = commands(data)
    assert first.code == RequestCode.SEND_BATCH_MESSAGE
    items = [*iter_batch(first.body), *iter_batch(second.body)]
    properties = [decode_properties(item.properties) for item in items]
    assert len(items) == 2 * PER_BATCH
    assert all(len(item.body) == 64 for item in items)
    assert len({p["KEYS"] for p in properties}) == 2 * PER_BATCH
    assert {len(p["UNIQ_KEY"]) for p in properties} == {32}
    assert properties[PER_BATCH - 1]["KEYS"] == requests.key(FIRST_NUMBER)


def test_a_stamped_body_starts_with_the_time_it_was_due() -> None:
    requests = Requests(run=1, connection=0, target=TARGET, body_bytes=64, stamped=True)
    data = requests.make(FIRST_NUMBER, [123, 456])
    assert [int(command.body[:STAMP_WIDTH]) for command in commands(data)] == [123, 456]
    assert all(len(command.body) == 64 for command in commands(data))


@pytest.mark.parametrize(("hold_ms", "sys_flag"), [(0, "4"), (5000, "6")])
def test_a_pull_asks_for_32_messages_and_may_be_held(hold_ms: int, sys_flag: str) -> None:
    (command,) = commands(PullRequests("T%d", hold_ms=hold_ms).one(9, 2, 123456))
    assert command.code == RequestCode.PULL_MESSAGE
    assert command.opaque == 9
    assert command.ext["topic"] == "T%d"
    assert command.ext["queueId"] == "2"
    assert command.ext["queueOffset"] == "123456"
    assert command.ext["maxMsgNums"] == "32"
    assert command.ext["sysFlag"] == sys_flag


def test_signed_requests_are_signed_as_rocketmqs_clients_do_it() -> None:
    target = SendTarget(("bench4_0000", "bench4_0001"), 4)
    account = Credentials("rocketeer-bench", "a-long-secret")
    for batch in (False, True):
        requests = Requests(run=7, connection=3, target=target, body_bytes=64, batch=batch, account=account)
        for frame in FrameSplitter().feed(requests.make(FIRST_NUMBER, [0] * 9)):
            command = decode_frame(*frame)
            content = signed_content(command.ext, command.body)
            assert finish(checking_signature(content, account.secret_key, command.ext["Signature"]))
            assert command.ext["AccessKey"] == account.access_key
