"""What others import of the compiled engine.

`SendBuffer` is None where the compiled modules are not in use: every send goes the general way then.
"""

from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED

__all__ = ["Later", "PropertyRules", "ReplyFormat", "SendAccess", "SendBuffer", "SendIds", "StoredIds"]

if TYPE_CHECKING:
    from rocketeer.engine._replies import Later
    from rocketeer.engine._send_ids import StoredIds
else:
    Later, StoredIds = tuple, object

if TYPE_CHECKING or COMPILED:
    from rocketeer.engine._access import SendAccess
    from rocketeer.engine._properties import PropertyRules
    from rocketeer.engine._replies import ReplyFormat
    from rocketeer.engine._send_buffer import SendBuffer
    from rocketeer.engine._send_ids import SendIds
else:
    PropertyRules = ReplyFormat = SendAccess = SendBuffer = SendIds = None
