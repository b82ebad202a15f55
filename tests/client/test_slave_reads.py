"""The broker says which of its kind to read from: the slave while it is busy, and itself again later."""

from rocketeer.client.sync.push_consumer import PushConsumer
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.bodies.clients import encoding_consumer_list
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.steps import finish
from support.bodies import decode_heartbeat, encode_route
from support.consuming import until_sync
from support.scripted_broker import Play, ScriptedBroker, scripted_broker

HOST = encode_host("127.0.0.1", 1)


class Plays:
    """A master, or a slave, whose answers to pulls suggest where to read next."""

    def __init__(self, suggest: int) -> None:
        self.suggest = suggest
        self.clients: list[str] = []

    def table(self) -> dict[int, Play]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
            RequestCode.QUERY_CONSUMER_OFFSET: lambda asked: reply(asked, ext={"offset": "0"}),
            RequestCode.UPDATE_CONSUMER_OFFSET: reply,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda asked: reply(asked, ResponseCode.SYSTEM_ERROR),
            RequestCode.PULL_MESSAGE: self._pull,
        }

    def _heartbeat(self, asked: Command) -> Command:
        self.clients = [decode_heartbeat(asked.body).client_id]
        return reply(asked)

    def _members(self, asked: Command) -> Command:
        return reply(asked, body=finish(encoding_consumer_list(self.clients)))

    def _pull(self, asked: Command) -> Command:
        offset = int(asked.ext["queueOffset"])
        pending = PendingMessage(asked.ext["topic"], 0, 0, 0, 1, HOST, str(offset).encode(), b"")
        record = encode_pending(pending, queue_offset=offset, log_offset=1, store_ms=1, store_host=HOST)
        ext = {
            "nextBeginOffset": str(offset + 1),
            "minOffset": "0",
            "maxOffset": str(offset + 1),
            "suggestWhichBrokerId": str(self.suggest),
        }
        return reply(asked, ext=ext, body=record)


def route_to(master: ScriptedBroker, slave_address: str) -> Play:
    def answer(asked: Command) -> Command:
        if asked.ext["topic"].startswith("%RETRY%"):
            return reply(asked, ResponseCode.TOPIC_NOT_EXIST)
        brokers = (BrokerData("c", "scripted", {0: master.address, 1: slave_address}),)
        return reply(asked, body=encode_route(Route((QueueData("scripted", 1, 1, 6),), brokers), strict=True))

    return answer


def consume(master: ScriptedBroker, got: list[str]) -> PushConsumer:
    consumer = PushConsumer("G", nameserver=master.address, pull_interval_s=0.01)
    consumer.subscribe("T", lambda message: got.append(message.text))
    return consumer


def tells_offset(broker: ScriptedBroker) -> bool:
    return any(int(asked.ext["sysFlag"]) & 1 for asked in broker.asked(RequestCode.PULL_MESSAGE))


def test_it_reads_where_it_is_told_and_comes_back() -> None:
    at_master, at_slave = Plays(suggest=1), Plays(suggest=0)
    got: list[str] = []
    with scripted_broker(at_master.table()) as master, scripted_broker(at_slave.table()) as slave:
        master._plays[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route_to(master, slave.address)
        with consume(master, got):
            slave.wait_for(RequestCode.PULL_MESSAGE, 5)
            master.wait_for(RequestCode.PULL_MESSAGE, 5)
            until_sync(lambda: len(got) >= 10)
            until_sync(lambda: tells_offset(master), "a master is told offsets")
        by_slave = slave.asked(RequestCode.PULL_MESSAGE)
        by_master = master.asked(RequestCode.PULL_MESSAGE)
    offsets = sorted(int(asked.ext["queueOffset"]) for asked in by_slave + by_master)
    assert offsets[:10] == list(range(10)), "each offset was asked for once, here or there"
    assert not tells_offset(slave), "slaves are told no offsets"


def test_a_slave_that_is_not_there_is_not_insisted_on() -> None:
    at_master = Plays(suggest=1)
    got: list[str] = []
    with scripted_broker(at_master.table()) as master:
        master._plays[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route_to(master, "127.0.0.1:1")
        with consume(master, got):
            until_sync(lambda: len(got) >= 3)
