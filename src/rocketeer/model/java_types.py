"""Values that peers know under Java's names: whole numbers with Java's limits, fields that Java calls otherwise."""

from typing import Annotated, Any

import msgspec

from rocketeer.model.offsets import LogOffset, QueueOffset

# What does not fit is refused where it comes in.
I32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
LogOffsetI64 = Annotated[LogOffset, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
QueueOffsetI64 = Annotated[QueueOffset, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class JavaValue(msgspec.Struct, frozen=True, rename="camel"):
    """A value that is used as it is sent: its fields have our names, and Java's where `java` says them."""


def java(name: str, default: Any) -> Any:
    """A field that Java calls so, and need not send."""
    return msgspec.field(name=name, default=default)
