"""Texts that somebody keeps: fields that are short in honest requests, and as long as a request may be here."""

import json

from rocketeer.protocol.command import request
from support.raw_connection import RawConnection
from support.senders import send_header
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
    with RawConnection(address) as line:
        for number in range(60):
            subscription = {"topic": "T", "expressionType": "x" * (MB - 500)}
            consumer = {"groupName": f"kind{number}", "subscriptionDataSet": [subscription]}
            body = {"clientID": "c", "consumerDataSet": [consumer]}
            line.ask(request(34, {}, json.dumps(body).encode()))


@broker("300 transactions that are ended by groups with names of 250 KB", memory_mb=16)
def _(address: str) -> None:
    end = {"tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8"}
    flood(address, [request(37, end | {"producerGroup": f"{number}" + "g" * LONG}) for number in range(300)])


@broker("300 sends that name a topic of 250 KB to make theirs from", memory_mb=16)
def _(address: str) -> None:
    sends = []
    for number in range(300):
        send = send_header(f"Unknown{number}", 0, "") | {"c": f"{number}" + "d" * LONG}
        sends.append(request(310, send, b"x"))
    flood(address, sends)
