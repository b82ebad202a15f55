"""Every error a user of Rocketeer can meet; each says what was wrong, with which value, and what to do."""

from collections.abc import Sequence
from typing import Final


class RocketeerError(Exception):
    """The root of all errors raised on purpose."""


class ConfigError(RocketeerError):
    """A configuration file or option that cannot be used; the text names the key."""


class UnknownOption(ConfigError, TypeError):
    """A keyword argument that is no option; the text names the nearest one that is."""


# --- bytes from the network -------------------------------------------------------------------


class ProtocolError(RocketeerError):
    """Bytes that are not what the remoting protocol allows; the connection that sent them is closed."""


class FrameTooLarge(ProtocolError):
    """A frame announces more bytes than a peer may make us hold."""

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(f"frame of {size} bytes is larger than the limit of {limit}")
        self.size = size
        self.limit = limit


class BadFrame(ProtocolError):
    """A frame whose lengths contradict each other."""


class BadHeader(ProtocolError):
    """A header that cannot be decoded, or whose field is missing or not what its type says."""


class BadBody(ProtocolError):
    """A request or reply body that is not the JSON (or the bytes) its code asks for."""


# --- stored bytes ----------------------------------------------------------------------------


class BadRecord(RocketeerError):
    """Bytes that should be a stored message and are not."""

    def __init__(self, *, at: int, reason: str) -> None:
        super().__init__(f"no valid record at {at}: {reason}")
        self.at = at
        self.reason = reason


class BadBatch(RocketeerError):
    """The body of a batch request that does not split into messages."""


class BadMessageId(RocketeerError):
    """A text that is not an offset message id."""


class BadRecallHandle(RocketeerError):
    """A text that is not a recall handle."""


class BadSqlExpression(RocketeerError, ValueError):
    """An SQL92 expression that cannot be used; `position` counts characters from 1."""

    def __init__(self, reason: str, expression: str, at: int) -> None:
        start, end = max(0, at - 24), at + 24
        near = f"{'...' if start else ''}{expression[start:end]}{'...' if end < len(expression) else ''}"
        super().__init__(f"invalid SQL92 expression at position {at + 1}: {reason}; near {near!r}")
        self.reason = reason
        self.expression = expression
        self.position = at + 1


class BodyTooLarge(RocketeerError):
    """A compressed body that grows past the limit when opened."""


class InvalidTopic(RocketeerError):
    """A topic name that RocketMQ's rules do not allow."""


# --- the store -------------------------------------------------------------------------------


class StoreError(RocketeerError):
    """The store cannot be opened or used."""


class LogUnreadable(StoreError):
    """The disk does not give back bytes of the log."""


class StoreLocked(StoreError):
    """Another broker runs on the same folder."""


class BackupError(RocketeerError):
    """A backup that cannot be made, read or restored; the text says which file and why."""


class StoreRefused(RocketeerError):
    """A message that was not stored; `reason` is one of the names below, the text says more."""

    DISK_FULL = "DISK_FULL"
    TOO_LARGE = "TOO_LARGE"
    NOT_WRITABLE = "NOT_WRITABLE"
    PROPERTIES_TOO_LONG = "PROPERTIES_TOO_LONG"
    BAD_TOPIC = "BAD_TOPIC"

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


# --- requests and calls ----------------------------------------------------------------------


class RequestRefused(RocketeerError):
    """Raised inside a handler: the peer gets a reply with this code and remark."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


class PortInUse(RocketeerError):
    """Another process listens there."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"port {port} on {host} is in use by another process; stop it or choose another port"
        )
        self.port = port


class RemotingError(RocketeerError):
    """A call to another process that brought no reply."""


class ConnectFailed(RemotingError):
    """Nobody answers at the address."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"cannot connect to {address}: {why}")
        self.address = address


class RemotingClosed(ConnectFailed):
    """Our own side was closed meanwhile: no further attempt can succeed."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "the client is closed")


class CallTimeout(RemotingError):
    """The peer did not answer in time; whether it did the work is unknown."""

    def __init__(self, address: str, code: int, timeout_s: float) -> None:
        super().__init__(f"{address} did not answer request code {code} within {timeout_s:g} s")
        self.address = address
        self.code = code


class ConnectionLost(RemotingError):
    """The connection closed while a call was waiting on it."""

    def __init__(self, address: str, why: str = "closed by the peer") -> None:
        super().__init__(f"connection to {address} lost: {why}")
        self.address = address


# --- the clients -----------------------------------------------------------------------------


class ClientError(RocketeerError):
    """A producer or consumer cannot do what it was asked."""


class ClientClosed(ClientError):
    """The producer or consumer was not started, or was closed."""


class InvalidGroup(ClientError, ValueError):
    """A producer or consumer group name that RocketMQ's rules do not allow."""


class NoNameServer(ClientError):
    """No name server address is known, or none of them answered; the text says which were asked."""

    def __init__(self, asked: Sequence[tuple[str, str]] = (), text: str = "") -> None:
        tries = "; ".join(why for _, why in asked)
        super().__init__(text or f"no name server answered: {tries}")
        self.asked = tuple(address for address, _ in asked)


class NoRoute(ClientError):
    """The name servers know no broker that has the topic."""

    def __init__(self, topic: str, asked: Sequence[str], why: str = "") -> None:
        super().__init__(
            f"no route to topic {topic!r}: asked name server {', '.join(asked) or '(none)'}. "
            + (why or "Create the topic, or check that its broker is running and registered there")
        )
        self.topic = topic
        self.asked = tuple(asked)


class NoBroker(ClientError):
    """A route without a broker that can be used: none is up, or none lets us write."""

    def __init__(self, topic: str, broker: str | None, why: str) -> None:
        super().__init__(f"no broker for topic {topic!r}: {broker + ' ' if broker else ''}{why}")
        self.topic = topic
        self.broker = broker


OUTCOME_UNKNOWN: Final = (
    "the message was appended, and this broker ceased to lead before it was confirmed: "
    "it may be kept or not; send it again"
)
"""What a broker says that lost the lead while a message waited to be confirmed."""


class BrokerRefused(ClientError):
    """The broker answered, and the answer is no: its code and remark, and which broker and queue it was."""

    def __init__(
        self, code: int, remark: str | None, *, broker: str, code_name: str = "", queue: object = None
    ) -> None:
        where = f"broker {broker}" + (f", {queue}" if queue is not None else "")
        super().__init__(f"{where} refused with code {code} {code_name}: {remark or '(no remark)'}")
        self.code = code
        self.remark = remark or ""
        self.broker = broker
        self.queue = queue

    @property
    def outcome_unknown(self) -> bool:
        """The message was stored before the answer became no: it may be kept or not."""
        return self.remark == OUTCOME_UNKNOWN


class AccessDenied(BrokerRefused):
    """The account is unknown, its signature wrong, or it may not do this: trying again changes nothing."""


class SendFailed(ClientError):
    """No attempt to send brought an answer; `attempts` holds queue and error of each.

    Whether a message was stored is unknown where the error is CallTimeout or ConnectionLost.
    """

    def __init__(self, topic: str, attempts: Sequence[tuple[object, Exception]], why: str = "") -> None:
        tries = "; ".join(f"{queue}: {error}" for queue, error in attempts)
        what = why or f"{len(attempts)} attempt{'s' if len(attempts) != 1 else ''} failed"
        super().__init__(f"message to topic {topic!r} not sent: {what}" + (f" ({tries})" if tries else ""))
        self.topic = topic
        self.attempts = tuple(attempts)


class SendTimeout(SendFailed):
    """The time for a send is over; all its attempts share it."""


class MessageNotFound(ClientError):
    """No broker has the message that was looked for; the text says by what."""


class RequestTimeout(ClientError):
    """The question was sent, and nobody answered it in time; whether somebody worked on it is unknown."""

    def __init__(self, topic: str, correlation_id: str, timeout_s: float) -> None:
        super().__init__(
            f"request to topic {topic!r} not answered within {timeout_s:g} s (correlation id {correlation_id}): "
            "is there a consumer that answers with reply()?"
        )
        self.topic = topic
        self.correlation_id = correlation_id
        self.timeout_s = timeout_s


class TooManyInFlight(ClientError):
    """No place for another unanswered send got free in time."""


class UndecodableBody(ClientError):
    """A body that is not what its listener's annotation says: to the dead letters at once, with the reason."""

    def __init__(self, topic: str, kind: object, why: object) -> None:
        name = kind.__qualname__ if isinstance(kind, type) else str(kind).replace("typing.", "")
        super().__init__(f"a message of topic {topic!r} is no {name}: {why}")
        self.topic = topic


class MessageTooLarge(ClientError, ValueError):
    """A body, a batch or properties over the limit; nothing was sent."""

    def __init__(self, what: str, *, size: int, limit: int, advice: str = "") -> None:
        super().__init__(
            f"{what} of {size} bytes is over the limit of {limit}" + (f": {advice}" if advice else "")
        )
        self.size = size
        self.limit = limit


class PeerRefused(RocketeerError):
    """A server that should be one of ours could not prove it, or we could not; the text says which."""


class GroupError(RocketeerError):
    """A group of brokers, or its etcd, is not as it must be; the text says what was found and what to do."""


class EtcdUnavailable(GroupError):
    """No etcd answered, or not in time: what was asked may have been done or not."""


class ReplicationError(RocketeerError):
    """Master and slave cannot go on with each other; the text says what one has and the other lacks."""
