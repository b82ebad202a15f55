"""A slave of ours follows tables that no frame holds; RocketMQ's slaves are told what they always were."""

from pathlib import Path

from rocketeer.broker.features.replication.packed import ASKING, PACKED
from rocketeer.broker.features.replication.tables import FollowedTables
from rocketeer.broker.followed_tables import COPIED_FILES
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.frame import FRAME_BYTES_MAX
from support.broker import broker_at
from support.tables import encode_topic_table

COUNT = 70_000


class NoFiles:
    """No file of the master's is looked at here."""

    async def saved_text(self, file_name: str) -> str | None:
        return None

    async def save_text(self, file_name: str, text: str) -> None:
        assert text


class EmptyLog:
    max_log_offset = 0
    flushed_log_offset = 0

    def delete_topic(self, topic: str) -> None:
        raise AssertionError(f"nobody deleted {topic}")


async def test_a_topic_table_larger_than_a_frame_is_followed(tmp_path: Path) -> None:
    names = [f"{number:0120d}" for number in range(COUNT)]
    table = encode_topic_table({name: TopicConfig(name) for name in names}, DataVersion(1, 1))
    assert len(table) > FRAME_BYTES_MAX
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_bytes(table)
    async with broker_at(tmp_path) as master:
        topics = TopicTable(BrokerConfig(), SystemClock())
        followed = FollowedTables(
            master.client,
            topics=topics,
            groups=ConsumerGroupTable(BrokerConfig(), SystemClock()),
            offsets=ConsumerOffsets(),
            copied_files=COPIED_FILES,
            files=NoFiles(),
            store=EmptyLog(),
            clock=SystemClock(),
            own_address="",
        )
        followed.master_named(master.address)
        await followed.look()
        assert set(names) <= topics.configs.keys()


async def test_only_who_asks_gets_a_packed_table(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as master:
        for code in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET):
            plain = await master.ask(code)
            assert (plain.code, plain.body[:1], PACKED in plain.ext) == (ResponseCode.SUCCESS, b"{", False)
            packed = await master.ask(code, ASKING)
            assert packed.ext[PACKED] == "zlib"
            assert len(packed.body) < len(plain.body) or code == RequestCode.GET_ALL_CONSUMER_OFFSET
