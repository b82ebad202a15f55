"""Topics as JSON: one, a broker's table with its version (21, its file), lists of names (206, 224 ...)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.data_version import VersionWire, version_from_wire, version_to_wire
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, java, load_as, load_request
from rocketeer.protocol.java_types import I32


class TopicTable(NamedTuple):
    """A broker's topics by name."""

    configs: dict[str, TopicConfig]
    version: DataVersion


class TopicList(NamedTuple):
    """Names of topics; `broker_address` is in the answer to 304 only, as one broker to ask for more."""

    topics: list[str]
    broker_address: str | None


class TopicWire(Wire):
    """A topic under Java's names."""

    topic_name: str | None = None
    read_queue_nums: I32 = 16
    write_queue_nums: I32 = 16
    perm: I32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: I32 = 0
    order: bool = False


class TopicTableWire(Wire):
    """A topic table under Java's names."""

    topic_config_table: dict[str, TopicWire | None] | None = None
    data_version: VersionWire | None = None


class _TopicListWire(Wire, omit_defaults=True):
    topic_list: list[str] | None = None
    broker_address: str | None = java("brokerAddr", None)


_table_decoder = decoder(TopicTableWire)
_list_decoder = decoder(_TopicListWire)


def topic_to_wire(topic: TopicConfig) -> TopicWire:
    return TopicWire(
        topic.name,
        topic.read_queues,
        topic.write_queues,
        int(topic.perm),
        topic.filter_type,
        topic.sys_flag,
        topic.order,
    )


def topic_from_wire(wire: TopicWire, name: str | None = None) -> TopicConfig:
    """The topic; `name` is its key in a table, for senders that leave the name out."""
    name = name if wire.topic_name is None else wire.topic_name
    if name is None:
        raise BadBody("a topic without topicName")
    return TopicConfig(
        name,
        wire.read_queue_nums,
        wire.write_queue_nums,
        wire.perm,
        wire.topic_filter_type,
        wire.topic_sys_flag,
        wire.order,
    )


def table_to_wire(configs: Mapping[str, TopicConfig], version: DataVersion) -> TopicTableWire:
    table: dict[str, TopicWire | None] = {name: topic_to_wire(topic) for name, topic in configs.items()}
    return TopicTableWire(table, version_to_wire(version))


def table_from_wire(wire: TopicTableWire) -> TopicTable:
    table = wire.topic_config_table or {}
    configs = {name: topic_from_wire(topic, name) for name, topic in table.items() if topic is not None}
    return TopicTable(configs, version_from_wire(wire.data_version))


def encode_topic_table(configs: Mapping[str, TopicConfig], version: DataVersion) -> bytes:
    return encode(table_to_wire(configs, version))


def encode_topic_entry(topic: TopicConfig) -> bytes:
    """What stands for one topic in a table; `join_topic_table` makes the table of them."""
    return encode(topic.name) + b":" + encode(topic_to_wire(topic))


def join_topic_table(entries: Iterable[bytes], version: DataVersion) -> bytes:
    """The same bytes as `encode_topic_table`: only the topics that changed must be encoded again."""
    return b'{"topicConfigTable":{%b},"dataVersion":%b}' % (
        b",".join(entries),
        encode(version_to_wire(version)),
    )


def decode_topic_table(data: bytes) -> TopicTable:
    return table_from_wire(load_request(_table_decoder, data))


def encode_topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    return encode(_TopicListWire(list(topics), broker_address))


def decode_topic_list(data: bytes) -> TopicList:
    wire = load_as(_list_decoder, data)
    return TopicList(wire.topic_list or [], wire.broker_address)
