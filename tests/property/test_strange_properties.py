"""What features derive from the log is derived from whatever its messages say: nothing a client writes stops them."""

import asyncio
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketeer.audit.store import audit_store, in_this_process
from rocketeer.broker.assemble import Broker
from rocketeer.broker.lifecycle import Lifecycle
from rocketeer.config import BrokerConfig, BrokerRole, ServerConfig
from rocketeer.model import property_names, topic
from rocketeer.record.layout import PendingMessage
from support.clock import ManualClock
from support.stores import BORN_HOST, make_store, memory_folder, small_config

NAMES = sorted(
    {
        value
        for name, value in vars(property_names).items()
        if name.isupper() and isinstance(value, str) and value
    }
)
NUMBERS = [
    "0", "1", "3", "-1", "+3", "007", " 5", "²", "٣", "1e3", "1_0", "0x10", "", "true", "9" * 18, "9" * 19,
    "9" * 25, "9" * 5_000, "-" + "9" * 5_000, "65535", "2147483648", "-9223372036854775809", "nan", "\ufffd",
]  # fmt: skip
TOPICS = [
    "T", "%RETRY%g", "%DLQ%g", topic.SCHEDULE_TOPIC, topic.TIMER_TOPIC, topic.TRANS_HALF_TOPIC,
    topic.TRANS_OP_HALF_TOPIC, topic.TRANS_CHECK_MAX_TIME_TOPIC, topic.TRACE_TOPIC, "rocketeer_TABLE_CHANGES",
]  # fmt: skip
values = st.one_of(
    st.sampled_from([*NUMBERS, *TOPICS, "7F00000100002A9F0000000000000000"]).map(str.encode),
    st.binary(max_size=30),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
)
properties = st.lists(
    st.tuples(st.sampled_from(NAMES).map(str.encode), values).map(b"\x01".join), max_size=6
).map(b"\x02".join)
messages = st.builds(
    PendingMessage,
    topic=st.sampled_from(TOPICS),
    queue_id=st.sampled_from([0, 1, 2, 17]),
    flag=st.just(0),
    sys_flag=st.sampled_from([0, 4, 8, 12]),
    born_ms=st.sampled_from([0, -1, 1_600_000_000_000, (1 << 63) - 1]),
    born_host=st.just(BORN_HOST),
    body=st.one_of(values, st.binary(max_size=10).map(lambda body: body + b",5,")),
    properties=properties,
    reconsume_times=st.sampled_from([0, 1, 16, (1 << 31) - 1]),
    prepared_offset=st.sampled_from([0, 1, -1, 1 << 40, -(1 << 40), -(1 << 62), -(1 << 62) - 1, -(1 << 63)]),
)


def said(where: str, **named: str) -> PendingMessage:
    text = "\x02".join(f"{name}\x01{value}" for name, value in named.items())
    return PendingMessage(where, 0, 0, 0, 0, BORN_HOST, b"9" * 5_000, text.encode())


@settings(max_examples=60)
@given(st.lists(messages, min_size=1, max_size=8))
@example([said("T", PRODUCER_ID="p", PRODUCER_SEQ="0", REAL_TOPIC="x", REAL_QID="9" * 5_000)])
@example([said("T", PRODUCER_ID="p", PRODUCER_SEQ="0", REAL_TOPIC="x", REAL_QID="²")])
@example([said(topic.SCHEDULE_TOPIC, DELAY="1", REAL_TOPIC="T", REAL_QID="²")])
@example([said(topic.SCHEDULE_TOPIC, DELAY="1", REAL_TOPIC="T", REAL_QID="9" * 5_000)])
@example([said(topic.TRANS_HALF_TOPIC, REAL_TOPIC="T"), said(topic.TRANS_OP_HALF_TOPIC)])
def test_a_start_and_a_slave_take_whatever_messages_say(stored: list[PendingMessage]) -> None:
    with memory_folder() as name:
        folder = Path(name)
        master = make_store(folder / "master")
        master.open()
        for message in stored:
            master.append(message)
        copied = bytes(master.log.read(master.min_log_offset, master.log.max_offset) or b"")
        master.close()
        asyncio.run(live(folder / "master", BrokerRole.ASYNC_MASTER))
        audit_store(in_this_process, folder / "master")
        asyncio.run(live(folder / "slave", BrokerRole.SLAVE, copied))
        asyncio.run(live(folder / "slave", BrokerRole.SLAVE))
        asyncio.run(live(folder / "slave", BrokerRole.ASYNC_MASTER))


async def live(folder: Path, role: BrokerRole, copied: bytes = b"") -> None:
    """Start, take over what is copied, look around as the services do, and stop."""
    store = small_config(folder, broker_role=role)
    broker = Broker(BrokerConfig(), store, ServerConfig(), ManualClock())
    components = broker.components()
    await Lifecycle(components).recover()
    try:
        if copied:
            components.state.store.append_raw(0, copied)
        for feature in components.features:
            for needed in feature.needs:
                needed()
            for close in feature.closers:
                close()
        await components.state.tables.save_all()
    finally:
        components.state.store.close()
        components.state.remoting.close()
