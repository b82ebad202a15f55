"""Filters: long expressions, and such that find nothing."""

import json

from rocketeer.protocol.command import request
from support.senders import pull_header
from support.worst_requests.catalogue import BROKER, Attack, Worst, broker
from support.worst_requests.pieces import FILLED, ask, flood, heartbeat, names

LETTERS = [chr(0x100 + number) for number in range(330)]
"""Each is a tag."""
SQL_SHAPES = {
    "parentheses": "(" * 32_000 + "a=1" + ")" * 32_000,
    "a row of terms": " AND ".join(["a=1"] * 7_000),
    "nested to the right": "(a=1 AND " * 6_000 + "a=1" + ")" * 6_000,
    "nested to the left": "(" * 5_000 + "a=1" + " AND a=1)" * 5_000,
    "alternating": "(" * 70 + "a=1" + " AND a=1) OR (b=1 OR c=2)" * 70,
    "NOT NOT NOT": "NOT " * 16_000 + "a=1",
    "minus signs": "- " * 30_000 + "1 = a",
    "a list": "a IN (" + ",".join(["'x'"] * 16_000) + ")",
    "comments": "--\n" * 20_000 + "a=1",
    "an unclosed parenthesis": "(" * 60_000 + "a",
}


def _sql_pull(expression: str) -> Attack:
    def attack(address: str) -> None:
        pull = pull_header(FILLED, 0, 0) | {"subscription": expression, "expressionType": "SQL92"}
        ask(address, request(11, pull))

    return attack


for _shape, _expression in SQL_SHAPES.items():
    BROKER.append(Worst(f"a pull with 64 KB of SQL: {_shape}", _sql_pull(_expression)))


@broker("checks of long SQL expressions")
def _(address: str) -> None:
    for expression in SQL_SHAPES.values():
        told = {
            "clientId": "c",
            "group": "g",
            "subscriptionData": {"topic": "T", "subString": expression, "expressionType": "SQL92"},
        }
        ask(address, request(46, {}, json.dumps(told).encode()))


@broker("a heartbeat with 200 long SQL subscriptions")
def _(address: str) -> None:
    expression = " AND ".join(f"a{number} = {number}" for number in range(300))
    ask(address, request(34, {}, heartbeat(["sql"], topics=names("s-", 200), sql=expression)))


@broker("heartbeats of a group with SQL about topics with names of 1 MB, each forgotten again", memory_mb=16)
def _(address: str) -> None:
    told = []
    for number in range(12):
        told.append(request(34, {}, heartbeat(["far"], topics=[f"{number}" + "t" * 1_000_000], sql="a=1")))
        told.append(request(35, {"clientID": "c", "consumerGroup": "far"}))
    ask(address, *told)


@broker("pulls through SQL with 250 terms that never match")
def _(address: str) -> None:
    expression = " OR ".join(f"missing{number} = {number}" for number in range(250))
    pull = pull_header(FILLED, 0, 0) | {"subscription": expression, "expressionType": "SQL92"}
    ask(address, *[request(11, pull) for _ in range(4)])


@broker("pulls through SQL that looks for texts")
def _(address: str) -> None:
    expression = " OR ".join(f"p{number % 8} CONTAINS 'xyz{number}'" for number in range(200))
    pull = pull_header(FILLED, 0, 0) | {"subscription": expression, "expressionType": "SQL92"}
    ask(address, *[request(11, pull) for _ in range(4)])


@broker("a pull with 500,000 tags")
def _(address: str) -> None:
    ask(address, request(11, pull_header(FILLED, 0, 0) | {"subscription": "||".join(names("t", 500_000))}))


@broker(
    "4,000 pulls with different lists of 331 tags, and 1,000 with tags of 16,000 characters", memory_mb=48
)
def _(address: str) -> None:
    pulls = []
    for number in range(5_000):
        tags = (
            [f"{number:04}" + "\U0001f600" * 15_000] if number >= 4_000 else [chr(0x4E00 + number), *LETTERS]
        )
        pulls.append(request(11, pull_header(FILLED, 0, 10**6) | {"subscription": "||".join(tags)}))
    flood(address, pulls)
