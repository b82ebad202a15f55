"""What attacks find in the store of a broker."""

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import request
from rocketeer.record.batch import BatchItem, encode_batch
from support.cluster import ServerCluster
from support.hold import HONEST_TOPIC
from support.raw_connection import RawConnection
from support.senders import send_header
from support.worst_requests.pieces import (
    COLLIDING,
    COLLIDING_MESSAGES,
    FILLED,
    FILLED_MESSAGES,
    MB,
    WIDE,
    colliding_keys,
    flood,
    names,
)

CROWD_TOPICS = 200
CROWD_PAIRS = 50_000


def prepare(cluster: ServerCluster) -> None:
    """What the attacks find in the store."""
    properties = "".join(f"p{number}\x01{'v' * 20}\x02" for number in range(8))
    with Control(cluster.broker, timeout_s=60) as control, RawConnection(cluster.broker) as line:
        for topic in (HONEST_TOPIC, FILLED, COLLIDING, "Heavy"):
            control.create_topic(topic, queues=1)
        control.create_topic(WIDE, queues=65_535)
        keys = list(colliding_keys(COLLIDING_MESSAGES))
        keys.remove("BB" * 15)
        for topic, texts in (
            (FILLED, [properties] * FILLED_MESSAGES),
            (COLLIDING, [f"KEYS\x01{key}\x02" for key in keys]),
        ):
            for start in range(0, len(texts), 500):
                items = [BatchItem(0, b"x", text.encode()) for text in texts[start : start + 500]]
                sent = line.ask(request(320, send_header(topic, 0, "", batch=True), encode_batch(items)))
                assert sent.code == ResponseCode.SUCCESS, sent
        for _ in range(20):
            line.ask(request(310, send_header("Heavy", 0, "KEYS\x01heavy\x02"), bytes(3 * MB)))
        wide = {"consumerGroup": "wide", "topic": WIDE, "commitOffset": "0"}
        flood(
            cluster.broker,
            [request(15, wide | {"queueId": str(queue)}, oneway=True) for queue in range(65_535)],
        )


def crowd(broker: str) -> None:
    """As many series on a page of metrics as strangers can make in a second or two: offsets are taken for any name."""
    flood(broker, [request(310, send_header(topic, 0, ""), b"x") for topic in names("Topic", CROWD_TOPICS)])
    offset = {"queueId": "0", "commitOffset": "0"}
    pairs = ((f"Topic{number % CROWD_TOPICS}", f"Group{number}") for number in range(CROWD_PAIRS))
    flood(
        broker,
        [
            request(15, {"topic": topic, "consumerGroup": group} | offset, oneway=True)
            for topic, group in pairs
        ],
    )
