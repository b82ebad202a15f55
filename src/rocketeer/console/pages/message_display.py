"""A message as pages, the API and files show it: as text where it is text, always as hex, never as HTML."""

import base64
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rocketeer import ReceivedMessage
from rocketeer.model.offsets import QueueOffset

TEXT_CHARS_MAX: Final = 100_000
HEX_BYTES_MAX: Final = 4096


@dataclass(frozen=True)
class DisplayedMessage:
    """What is told of a message besides its body."""

    topic: str
    id: str
    log_id: str
    broker: str
    queue_id: int
    queue_offset: QueueOffset
    born_ms: int
    born_host: str
    store_ms: int
    tags: str | None
    keys: str | None
    size: int
    reconsume_times: int
    properties: Mapping[str, str]


def displayed(message: ReceivedMessage) -> DisplayedMessage:
    return DisplayedMessage(
        topic=message.topic,
        id=message.message_id,
        log_id=message.offset_message_id,
        broker=message.queue.broker_name,
        queue_id=message.queue.queue_id,
        queue_offset=message.queue_offset,
        born_ms=message.born_ms,
        born_host=message.born_host,
        store_ms=message.store_ms,
        tags=message.tags,
        keys=" ".join(message.keys) or None,
        size=message.size,
        reconsume_times=message.reconsume_times,
        properties=message.properties,
    )


def body_forms(body: bytes) -> Mapping[str, str]:
    """The body as text and as JSON where it is that, and as hex; long ones are cut: the whole is a download."""
    forms: dict[str, str] = {}
    with contextlib.suppress(UnicodeDecodeError):
        # A cut may go through a character.
        whole = (
            body.decode()
            if len(body) <= TEXT_CHARS_MAX * 4
            else body[: TEXT_CHARS_MAX * 4].decode(errors="ignore")
        )
        forms["text"] = whole[:TEXT_CHARS_MAX]
        if len(body) <= TEXT_CHARS_MAX:
            with contextlib.suppress(ValueError, RecursionError):
                forms["json"] = json.dumps(json.loads(whole), indent=2, ensure_ascii=False)
    rows = [body[at : at + 16] for at in range(0, min(len(body), HEX_BYTES_MAX), 16)]
    forms["hex"] = "\n".join(
        f"{16 * at:08x}  {row.hex(' '):<47}  {''.join(chr(c) if 32 <= c < 127 else '.' for c in row)}"
        for at, row in enumerate(rows)
    )
    return forms


def as_object(message: ReceivedMessage) -> dict[str, Any]:
    """All of it, for files: the body as text where it is UTF-8, else as base64."""
    body: dict[str, Any]
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"bodyBase64": base64.b64encode(message.body).decode()}
    return {
        "topic": message.topic,
        "storedTopic": message.stored_topic,
        "msgId": message.message_id,
        "offsetMsgId": message.offset_message_id,
        "broker": message.queue.broker_name,
        "queueId": message.queue.queue_id,
        "queueOffset": message.queue_offset,
        "bornTimestamp": message.born_ms,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_ms,
        "reconsumeTimes": message.reconsume_times,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        **body,
    }


def matches(message: ReceivedMessage, search: str) -> bool:
    """Whether the text is in the message: its id, keys, tags, properties or body; upper and lower case alike."""
    wanted = search.lower()
    if wanted in message.message_id.lower() or wanted in message.offset_message_id.lower():
        return True
    if any(wanted in value.lower() for value in message.properties.values()):
        return True
    return wanted in message.body.decode(errors="replace").lower()
