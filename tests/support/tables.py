"""Tables of topics and of groups, encoded in one go; brokers join them from entries that they keep."""

from collections.abc import Mapping

from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.wire import encode


def encode_topic_table(configs: Mapping[str, TopicConfig], version: DataVersion) -> bytes:
    return encode({"topicConfigTable": configs, "dataVersion": version})


def encode_group_table(groups: Mapping[str, SubscriptionGroup], version: DataVersion) -> bytes:
    return encode({"subscriptionGroupTable": groups, "dataVersion": version})
