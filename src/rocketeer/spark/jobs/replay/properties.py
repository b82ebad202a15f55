"""What a replayed message keeps: body, tags, keys and every property that is not in this list. Pure data.

The list is the contract (docs/jobs.md shows it): a replayed message is new, so nothing may delay it, discard it or
send it back to where the first one came from.
"""

from typing import Final

from rocketeer.model import property_names as names

RENEWED: Final[dict[str, str]] = {
    names.UNIQ_KEY: "the message gets an id of its own",
    names.PRODUCER_ID: "with the replay's, by which brokers know a row that is sent again",
    names.DEDUP_ID: "likewise",
    names.CLUSTER: "set by the broker that stores it",
    names.MSG_REGION: "likewise",
    names.TRACE_ON: "likewise",
    names.WAIT: "whether the sender waits for the disk is the replay's business",
    names.SHARDING_KEY: "as it was; with --ordered, the queue it came from",
}
"""Property -> why the replayed message has another value, or how it gets it."""

DROPPED: Final[dict[str, str]] = {
    names.DELAY: "it would be delayed again",
    names.TIMER_DELIVER_MS: "it would be delayed again",
    names.TIMER_DELAY_MS: "it would be delayed again",
    names.TIMER_DELAY_SEC: "it would be delayed again",
    names.TIMER_OUT_MS: "the broker's note of a delay that is over",
    names.TIMER_ENQUEUE_MS: "the broker's note of a delay that is over",
    names.TIMER_DEQUEUE_MS: "the broker's note of a delay that is over",
    names.TIMER_ROLL_TIMES: "the broker's note of a delay that is over",
    names.TIMER_DEL_UNIQKEY: "it would call back a delayed message",
    names.PRODUCER_SEQ: "it would be taken for one that is stored already",
    names.REAL_TOPIC: "where a delayed or half message belongs: decided anew",
    names.REAL_QID: "where a delayed or half message belongs: decided anew",
    names.RETRY_TOPIC: "of the consumer group that failed",
    names.RECONSUME_TIME: "of the consumer group that failed",
    names.MAX_RECONSUME_TIMES: "of the consumer group that failed",
    names.ORIGIN_MESSAGE_ID: "of the consumer group that failed",
    names.CONSUME_START_TIME: "of a consumer",
    names.TRAN_MSG: "it would be a half message, which nobody sees before its producer commits it",
    names.PGROUP: "the producers a half message is asked of",
    names.TRAN_PREPARED_QUEUE_OFFSET: "of the half message it was",
    names.TRANSACTION_WAITS_SINCE: "of the half message it was",
    names.TRANSACTION_CHECK_TIMES: "of the half message it was",
    names.CHECK_IMMUNITY_TIME_IN_SECONDS: "of the half message it was",
    names.MIN_OFFSET: "of the queue it was in",
    names.MAX_OFFSET: "of the queue it was in",
    names.INNER_MULTI_DISPATCH: "it would also be put into other queues again",
    names.INNER_MULTI_QUEUE_OFFSET: "of other queues it was in",
    names.CORRELATION_ID: "of a request whose sender no longer waits",
    names.REPLY_TO_CLIENT: "of a request whose sender no longer waits",
    names.TTL: "of a request whose sender no longer waits",
    names.ARRIVE_TIME: "of a request whose sender no longer waits",
    names.PUSH_REPLY_TIME: "of a request whose sender no longer waits",
    names.MSG_TYPE: "of a request whose sender no longer waits",
    names.BUYER_ID: "RocketMQ's own",
    names.INSTANCE_ID: "RocketMQ's own",
    names.TRANSFER_FLAG: "RocketMQ's own",
    names.CORRECTION_FLAG: "RocketMQ's own",
    names.MQ2_FLAG: "RocketMQ's own",
}
"""Property -> why the replayed message must not have it."""

NOT_COPIED: Final = frozenset({*RENEWED, *DROPPED, names.TAGS, names.KEYS})
"""Left out of the properties column; tags and keys have columns of their own, and arrive as they were."""
assert names.NOT_SENT_AGAIN <= NOT_COPIED, "the sink would refuse these"
