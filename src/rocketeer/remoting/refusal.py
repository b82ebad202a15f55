"""The reply to a request that failed."""

import logging

from rocketeer.errors import RequestRefused, RocketeerError
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, reply

log = logging.getLogger(__name__)


def refusal(command: Command, error: Exception, what: str, peer: str) -> Command:
    """The reply to one that was refused, or that hit an error of ours (which is logged with its trace)."""
    if isinstance(error, RequestRefused):
        return reply(command, error.code, error.remark)
    if not isinstance(error, RocketeerError):
        log.error("%s failed code=%d remote=%s", what, command.code, peer, exc_info=error)
    return reply(command, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
