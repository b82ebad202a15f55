"""The items of a batch request in plain Python: what `_batch_items.pyx` does compiled."""

from rocketeer.errors import MessageTooLarge
from rocketeer.model import property_names as names
from rocketeer.model.message import Message
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.properties import PROPERTIES_BYTES_MAX, encode_properties


def pack_items(messages: list[Message], identities: list[str], instance: str | None, whole: bool) -> bytes:
    """The body of a batch request. Raises MessageTooLarge for properties that are too long, ValueError for
    separators in them.

    `identities` are the messages' UNIQ_KEYs; `instance` is the namespace, if there is one. `whole` marks a batch of
    the user's making, whose messages keep WAIT, as those of Java's batches do.
    """
    assert len(messages) == len(identities)
    items: list[BatchItem] = []
    for message, identity in zip(messages, identities, strict=True):
        properties = message.all_properties()
        if not whole:
            del properties[names.WAIT]
        properties[names.UNIQ_KEY] = identity
        if instance is not None:
            properties[names.INSTANCE_ID] = instance
        encoded = encode_properties(properties)
        check_properties(len(encoded))
        items.append(BatchItem(message.flag, message.body, encoded))
    return encode_batch(items)


def check_properties(size: int) -> None:
    """Raise MessageTooLarge for properties that do not fit into a message."""
    if size > PROPERTIES_BYTES_MAX:
        raise MessageTooLarge("all properties together", size=size, limit=PROPERTIES_BYTES_MAX)
