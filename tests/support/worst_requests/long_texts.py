"""Texts that somebody keeps: fields that are short in honest requests, and as long as a request may be here."""

import json

from rocketeer.protocol.command import request
from support.wire import Line
from support.worst_requests.catalogue import broker
from support.worst_requests.pieces import MB, flood

LONG = 250_000
"""Nearly as many characters as a header may have."""


@broker("60 topics with filter types of 250 KB, told to the name servers", memory_mb=8)
def _(address: str) -> None:
    topic = {"defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    kind = {"topicFilterType": "x" * LONG, "topicSysFlag": "0", "order": "false"}
    flood(address, [request(17, topic | kind | {"topic": f"LongKind{number}"}) for number in range(60)])


@broker("60 heartbeats that say in 1 MB how they filter", memory_mb=16)
def _(address: str) -> None:
    with Line(address) as line:
        for number in range(60):
            subscription = {"topic": "T", "expressionType": "x" * (MB - 500)}
            consumer = {"groupName": f"kind{number}", "subscriptionDataSet": [subscription]}
            body = {"clientID": "c", "consumerDataSet": [consumer]}
            line.ask(request(34, {}, json.dumps(body).encode()))
