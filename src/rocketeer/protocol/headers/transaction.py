"""Headers of transactions: the producer's verdict (37), the broker's question (39), a recheck (323)."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, Header, LogOffsetI64, QueueOffsetI64


class EndTransactionHeader(Header):
    """37 END_TRANSACTION; `verdict` has the system flag's bits: 8 commit, 12 rollback, 0 unknown."""

    producer_group: str
    half_queue_offset: QueueOffsetI64 = field(name="tranStateTableOffset")
    log_offset: LogOffsetI64 = field(name="commitLogOffset")
    verdict: I32 = field(name="commitOrRollback")
    from_check: bool = field(default=False, name="fromTransactionCheck")
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransactionStateHeader(Header):
    """39 CHECK_TRANSACTION_STATE (broker to client)."""

    half_queue_offset: QueueOffsetI64 = field(name="tranStateTableOffset")
    log_offset: LogOffsetI64 = field(name="commitLogOffset")
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageHeader(Header):
    """323 RESUME_CHECK_HALF_MESSAGE."""

    msg_id: str | None = None
