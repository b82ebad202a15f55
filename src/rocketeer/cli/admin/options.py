"""Options that several commands have, under the names RocketMQ's tool gives them, and how times are read."""

import time
from datetime import datetime
from typing import Annotated

from rocketeer.cli.admin.declare import Option
from rocketeer.errors import ConfigError

Topic = Annotated[str, Option("t", "topic", "name of the topic")]
GroupOption = Annotated[str, Option("g", "groupName", "name of the consumer group")]
ConsumerGroupOption = Annotated[str, Option("g", "consumerGroup", "name of the consumer group")]
BrokerAddressOption = Annotated[str, Option("b", "brokerAddr", "address of a broker: host:port")]
ClusterName = Annotated[str, Option("c", "clusterName", "name of the cluster")]
ClusterOption = Annotated[str, Option("c", "cluster", "name of the cluster")]

_FORMS = ("%Y-%m-%d#%H:%M:%S:%f", "%Y-%m-%d#%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")


def time_ms(text: str) -> int:
    """`now`, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS in local time."""
    if text.lower() in ("now", "currenttimemillis"):
        return time.time_ns() // 1_000_000
    if text.isascii() and text.isdigit():
        return int(text)
    for form in _FORMS:
        try:
            return int(datetime.strptime(text, form).timestamp() * 1000)
        except ValueError:
            continue
    raise ConfigError(f"{text!r} is no time: write now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS")
