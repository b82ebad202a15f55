"""What a task learns of brokers before it writes to them."""

from collections.abc import Callable

import msgspec
import pytest

from rocketeer.client.plans.capabilities import BrokerCapabilities
from rocketeer.errors import BrokerRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.spark.sink.client import SinkClient
from rocketeer.spark.sink.topics import create_missing
from support.scripted_broker import scripted_broker

ASKED = RequestCode.GET_PRODUCER_SEQUENCE


def answer(code: ResponseCode, language: str = "PYTHON", version: int = 399) -> Callable[[Command], Command]:
    def play(command: Command) -> Command:
        made = reply(command, code=code, remark="as the test wants it")
        return msgspec.structs.replace(made, language=language, version=version)

    return play


@pytest.mark.parametrize(
    ("play", "wanted"),
    [
        (answer(ResponseCode.SUCCESS), BrokerCapabilities(idempotent=True, timed=True)),
        # A member of a group that does not lead now: the broker is ours, so its leader knows.
        (answer(ResponseCode.SERVICE_NOT_AVAILABLE), BrokerCapabilities(idempotent=True, timed=True)),
        (
            answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "JAVA", 399),
            BrokerCapabilities(idempotent=False, timed=False),
        ),
        (
            answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "JAVA", 460),
            BrokerCapabilities(idempotent=False, timed=True),
        ),
    ],
    ids=["ours", "a follower", "4.9.8", "5.1"],
)
def test_a_broker_is_asked_once_what_it_can_do(
    play: Callable[[Command], Command], wanted: BrokerCapabilities
) -> None:
    with scripted_broker({ASKED: play}) as broker:
        client = SinkClient.of(broker.address)
        for _ in range(2):
            assert client.thread.call(client.capabilities(broker.address, 30), 60) == wanted
        assert len(broker.asked(ASKED)) == 1


@pytest.mark.parametrize(
    "play",
    [
        answer(ResponseCode.SYSTEM_BUSY),
        answer(ResponseCode.SYSTEM_ERROR),
        answer(ResponseCode.SERVICE_NOT_AVAILABLE, "JAVA"),
    ],
    ids=["busy", "in trouble", "another make that starts"],
)
def test_a_broker_that_cannot_say_what_it_is_now_is_asked_again(play: Callable[[Command], Command]) -> None:
    """It was taken for one that knows no idempotent producers, for as long as the worker lived."""
    answers = [play, answer(ResponseCode.SUCCESS)]
    with scripted_broker({ASKED: lambda command: answers.pop(0)(command)}) as broker:
        client = SinkClient.of(broker.address)
        with pytest.raises(BrokerRefused, match="as the test wants it"):
            client.thread.call(client.capabilities(broker.address, 30), 60)
        answers.insert(0, play)
        found = client.thread.call(
            client.with_retries(lambda: client.capabilities(broker.address, 30), 30), 60
        )
        assert found == BrokerCapabilities(idempotent=True, timed=True)


def test_a_name_server_that_does_not_say_where_the_brokers_are_is_named() -> None:
    """Its refusal was read as an answer without brokers."""
    plays = {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: answer(ResponseCode.TOPIC_NOT_EXIST),
        RequestCode.GET_BROKER_CLUSTER_INFO: answer(ResponseCode.SYSTEM_BUSY),
    }
    with scripted_broker(plays) as nameserver:
        client = SinkClient.of(nameserver.address)
        with pytest.raises(BrokerRefused, match="as the test wants it"):
            client.thread.call(create_missing(client, "New", 1), 60)
