"""Topics as JSON: one, a broker's table with its version (21, its file), lists of names (206, 224 ...)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from rocketeer.model.data_version import DataVersion
from rocketeer.model.java_types import java
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.long_body import encoding_list
from rocketeer.protocol.bodies.wire import EntriesBody, Wire, decoder, encode, load_as, load_request
from rocketeer.steps import Steps, finish


class TopicTableBody(NamedTuple):
    """A broker's topics by name."""

    configs: dict[str, TopicConfig]
    version: DataVersion


class TopicList(NamedTuple):
    """Names of topics; `broker_address` is in the answer to 304 only, as one broker to ask for more."""

    topics: list[str]
    broker_address: str | None


class TopicTableWire(Wire):
    """A topic table under Java's names."""

    topic_config_table: Mapping[str, TopicConfig | None] | None = None
    data_version: DataVersion | None = None


class _TopicListWire(Wire, omit_defaults=True):
    topic_list: list[str] | None = None
    broker_address: str | None = java("brokerAddr", None)


TOPIC_ENTRIES: Final = EntriesBody(b"topicConfigTable")
"""The body of 21."""

_table_decoder = decoder(TopicTableWire)
_list_decoder = decoder(_TopicListWire)


def named(topic: TopicConfig, name: str) -> TopicConfig:
    """The topic with `name`, its key in a table, for senders that leave the name out."""
    return topic if topic.name else structs.replace(topic, name=name)


def table_from_wire(wire: TopicTableWire) -> TopicTableBody:
    table = wire.topic_config_table or {}
    configs = {name: named(topic, name) for name, topic in table.items() if topic is not None}
    return TopicTableBody(configs, wire.data_version or DataVersion())


def decode_topic_table(data: bytes) -> TopicTableBody:
    return table_from_wire(load_request(_table_decoder, data))


def encode_topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    return finish(encoding_topic_list(topics, broker_address))


def encoding_topic_list(topics: Iterable[str], broker_address: str | None = None) -> Steps[bytes]:
    """The same in steps: a name server may know a million."""
    behind = b"" if broker_address is None else b',"brokerAddr":' + encode(broker_address)
    return encoding_list("topicList", topics, behind)


def decode_topic_list(data: bytes) -> TopicList:
    wire = load_as(_list_decoder, data)
    return TopicList(wire.topic_list or [], wire.broker_address)
