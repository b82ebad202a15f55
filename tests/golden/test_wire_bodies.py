"""Recorded JSON bodies of the real RocketMQ 4.9.8: each decodes to our types and encodes to the same."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.errors import BadBody
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.broker_stats import decode_broker_stats, encode_broker_stats
from rocketeer.protocol.bodies.clients import decode_consumer_list, encoding_consumer_list
from rocketeer.protocol.bodies.connections import (
    decode_group_connections,
    decode_producer_connections,
    encoding_group_connections,
    encoding_producer_connections,
)
from rocketeer.protocol.bodies.consume_queue import decode_queue_entries, encode_queue_entries
from rocketeer.protocol.bodies.consume_stats import (
    decode_broker_consume_stats,
    decode_consume_stats,
    decode_topic_stats,
    encoding_topic_stats,
)
from rocketeer.protocol.bodies.data_version import decode_data_version, encode_data_version
from rocketeer.protocol.bodies.groups import (
    decode_group,
    decode_group_list,
    decode_group_table,
    encode_group,
    encoding_group_list,
)
from rocketeer.protocol.bodies.heartbeat import (
    decode_client_check,
    encode_client_check,
    encode_heartbeat,
)
from rocketeer.protocol.bodies.kv import decode_kv_table, encode_kv_table
from rocketeer.protocol.bodies.locks import (
    decode_locked_queues,
    encode_lock_request,
    encode_locked_queues,
)
from rocketeer.protocol.bodies.offsets import (
    decode_consumer_offsets,
    decode_corrections,
    decode_delay_offsets,
    decode_members_status,
    decode_queue_offsets,
    encode_corrections,
    encode_delay_offsets,
    encode_queue_offsets,
    encoding_members_status,
)
from rocketeer.protocol.bodies.producers import decode_producer_table, encoding_producer_table
from rocketeer.protocol.bodies.properties import decode_settings, encode_settings
from rocketeer.protocol.bodies.register import body_crc32, encode_registration
from rocketeer.protocol.bodies.route import (
    decode_cluster_info,
    decode_route,
)
from rocketeer.protocol.bodies.running_info import (
    decode_direct_result,
    decode_running_info,
    encode_direct_result,
    encode_running_info,
)
from rocketeer.protocol.bodies.time_spans import decode_time_spans, encoding_time_spans
from rocketeer.protocol.bodies.topics import decode_topic_list, decode_topic_table, encode_topic_list
from rocketeer.steps import finish
from support.bodies import (
    decode_heartbeat,
    decode_lock_request,
    decode_registration,
    encode_broker_consume_stats,
    encode_cluster_info,
    encode_consume_stats,
    encode_route,
)
from support.tables import encode_group_table, encode_topic_table

DATA = Path(__file__).parent / "data"
FILES = sorted(
    path for path in (DATA / "wire").glob("*.jsonl") if not path.stem.endswith(("_raw_ha_port", ".stored"))
)

Recode = Callable[[bytes], bytes]

REQUESTS: dict[int, Recode] = {
    34: lambda body: encode_heartbeat(decode_heartbeat(body)),
    41: lambda body: encode_lock_request(decode_lock_request(body)),
    42: lambda body: encode_lock_request(decode_lock_request(body)),
    46: lambda body: encode_client_check(decode_client_check(body)),
    200: lambda body: encode_group(decode_group(body)),
    220: lambda body: encode_queue_offsets(decode_queue_offsets(body)),
    322: lambda body: encode_data_version(decode_data_version(body)),
}
REPLIES: dict[int, Recode] = {
    21: lambda body: encode_topic_table(*decode_topic_table(body)),
    28: lambda body: encode_kv_table(decode_kv_table(body)),
    38: lambda body: finish(encoding_consumer_list(decode_consumer_list(body))),
    41: lambda body: encode_locked_queues(decode_locked_queues(body)),
    43: lambda body: fastjson.dumps_bare({"offsetTable": decode_consumer_offsets(body)}),
    45: lambda body: encode_delay_offsets(decode_delay_offsets(body)),
    103: lambda body: encode_kv_table(decode_kv_table(body)),
    106: lambda body: encode_cluster_info(*decode_cluster_info(body)),
    201: lambda body: encode_group_table(*decode_group_table(body)),
    202: lambda body: finish(encoding_topic_stats(decode_topic_stats(body).items())),
    203: lambda body: finish(encoding_group_connections(decode_group_connections(body))),
    204: lambda body: finish(encoding_producer_connections(decode_producer_connections(body))),
    206: lambda body: encode_topic_list(*decode_topic_list(body)),
    208: lambda body: encode_consume_stats(decode_consume_stats(body)),
    219: lambda body: encode_kv_table(decode_kv_table(body)),
    222: lambda body: encode_queue_offsets(decode_queue_offsets(body)),
    223: lambda body: finish(encoding_members_status(decode_members_status(body))),
    224: lambda body: encode_topic_list(*decode_topic_list(body)),
    300: lambda body: finish(encoding_group_list(decode_group_list(body))),
    303: lambda body: finish(encoding_time_spans(decode_time_spans(body))),
    304: lambda body: encode_topic_list(*decode_topic_list(body)),
    305: lambda body: encode_topic_list(*decode_topic_list(body)),
    307: lambda body: encode_running_info(decode_running_info(body)),
    308: lambda body: encode_corrections(decode_corrections(body)),
    309: lambda body: encode_direct_result(decode_direct_result(body)),
    311: lambda body: encode_topic_list(*decode_topic_list(body)),
    312: lambda body: encode_topic_list(*decode_topic_list(body)),
    313: lambda body: encode_topic_list(*decode_topic_list(body)),
    315: lambda body: encode_broker_stats(decode_broker_stats(body)),
    321: lambda body: encode_queue_entries(decode_queue_entries(body)),
    322: lambda body: encode_data_version(decode_data_version(body)),
    328: lambda body: finish(encoding_producer_table(decode_producer_table(body).items())),
}
# Composed wrong on purpose; the real broker answered SYSTEM_ERROR.
MALFORMED = {(34, b"not json"), (41, b"x"), (200, b"{}")}


def recorded(request_code: int | None = None) -> Iterator[tuple[int, bool, dict[str, Any], bytes]]:
    """(request code, is a reply, its header, its body) of every whole, non-empty body."""
    for path in FILES:
        with path.open() as lines:
            for line in lines:
                frame = json.loads(line)
                body = bytes.fromhex(frame.get("body_hex") or "")
                header = frame["header"]
                is_reply = bool(header["flag"] & 1)
                code = frame["request_code"] if is_reply else header["code"]
                if body and "scrubbed" not in frame and request_code in (None, code):
                    yield code, is_reply, header, body


def normal(value: Any) -> Any:
    """Lists that are sets in Java, in one order; keys that are objects, in one order."""
    if isinstance(value, dict):
        return {_normal_key(key): normal(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((normal(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _normal_key(key: str) -> str:
    return json.dumps(json.loads(key), sort_keys=True) if key.startswith("{") else key


@pytest.mark.parametrize("code", sorted(REQUESTS))
def test_a_recorded_request_body_means_the_same_after_our_encoding(code: int) -> None:
    seen = 0
    for _, is_reply, _, body in recorded(code):
        if is_reply or (code, body) in MALFORMED:
            continue
        assert normal(fastjson.loads(REQUESTS[code](body))) == normal(fastjson.loads(body))
        seen += 1
    assert seen


@pytest.mark.parametrize("code", sorted(REPLIES))
def test_a_recorded_reply_body_means_the_same_after_our_encoding(code: int) -> None:
    seen = 0
    for _, is_reply, header, body in recorded(code):
        if not is_reply or header["code"] != 0:
            continue
        assert normal(fastjson.loads(REPLIES[code](body))) == normal(fastjson.loads(body))
        seen += 1
    assert seen


def test_the_progress_of_all_groups_means_the_same_after_our_encoding() -> None:
    with (DATA / "wire" / "admin_raw.jsonl").open() as lines:
        frames = [json.loads(line) for line in lines]
    cut = next(
        bytes.fromhex(each["body_truncated_hex"]) for each in frames if each.get("request_code") == 317
    )
    # The recording ends in the middle: cut it behind the last whole group.
    body = cut[: cut.rindex(b']},{"')] + b']}],"totalDiff":42}'
    stats = decode_broker_consume_stats(body)
    assert stats.total_lag == 42
    assert stats.groups["SELF_TEST_C_GROUP"] == ()
    assert [sorted({queue.topic for queue in each.queues}) for each in stats.groups["CG_admin"]] == [
        ["%RETRY%CG_admin"],
        ["TopicTest"],
    ]
    assert sum(each.lag for each in stats.groups["CG_pull"]) == 4 + 3 + 6 + 12
    assert normal(fastjson.loads(encode_broker_consume_stats(stats))) == normal(fastjson.loads(body))


@pytest.mark.parametrize("code", [25, 26, 318, 319])
def test_recorded_settings_read_back_the_same(code: int) -> None:
    seen = 0
    for _, is_reply, _, body in recorded(code):
        if is_reply == (code in (26, 319)) and body not in (b"x", b"\xff"):
            settings = decode_settings(body)
            assert settings
            assert decode_settings(encode_settings(settings)) == settings
            seen += 1
    assert seen


def test_malformed_bodies_are_refused() -> None:
    decoders: dict[int, Callable[[bytes], object]] = {
        34: decode_heartbeat,
        41: decode_lock_request,
        200: decode_group,
    }
    for code, body in MALFORMED:
        with pytest.raises(BadBody):
            decoders[code](body)


def test_a_recorded_route_is_strict_or_bare_as_its_client_asked() -> None:
    strict = bare = 0
    for _, is_reply, header, body in recorded(105):
        if not is_reply or header["code"] != 0:
            continue
        route = decode_route(body)
        is_strict = b"{0:" not in body
        again = encode_route(route, strict=is_strict)
        assert normal(fastjson.loads(again)) == normal(fastjson.loads(body))
        assert (b"{0:" not in again) == is_strict
        assert decode_route(again) == route
        if is_strict:
            json.loads(again)
            strict += 1
        else:
            bare += 1
    assert strict > 100
    assert bare


def test_recorded_registrations_decode_and_encode_plain_and_compressed() -> None:
    plain = compressed = 0
    for _, is_reply, header, body in recorded(103):
        if is_reply:
            continue
        ext = header["extFields"]
        is_compressed = ext.get("compressed") == "true"
        if ext.get("bodyCrc32", "0") not in ("0", str(body_crc32(body))):
            continue  # a wrong checksum, recorded on purpose
        value = decode_registration(body, compressed=is_compressed)
        assert value.configs
        assert value.version.timestamp
        again = encode_registration(*value, compressed=is_compressed)
        assert decode_registration(again, compressed=is_compressed) == value
        if is_compressed:
            compressed += 1
        else:
            assert normal(fastjson.loads(again)) == normal(fastjson.loads(body))
            plain += 1
    assert plain > 10
    assert compressed


def test_recorded_tables_on_disk_are_the_bodies_of_21_and_201() -> None:
    for folder in ("broker_store_config", "store_full/config", "store_crashed/config"):
        topics = (DATA / folder / "topics.json").read_bytes()
        assert normal(fastjson.loads(encode_topic_table(*decode_topic_table(topics)))) == normal(
            fastjson.loads(topics)
        )
        groups = (DATA / folder / "subscriptionGroup.json").read_bytes()
        assert normal(fastjson.loads(encode_group_table(*decode_group_table(groups)))) == normal(
            fastjson.loads(groups)
        )
        offsets = (DATA / folder / "consumerOffset.json").read_bytes()
        assert decode_consumer_offsets(offsets)


def test_every_recorded_json_body_is_readable() -> None:
    count = 0
    for _, _, _, body in recorded():
        if body[:1] == b"{":
            fastjson.loads(body)
            count += 1
    assert count > 500
