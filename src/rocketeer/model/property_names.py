"""Message properties RocketMQ gives a meaning to; `record.properties` encodes them, features read them."""

from typing import Final

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
BUYER_ID: Final = "BUYER_ID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQ_KEY: Final = "UNIQ_KEY"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRANSACTION_WAITS_SINCE: Final = "TRANSACTION_WAITS_SINCE"
"""Ours: when a half message was stored first that was stored again while nobody could be asked after it."""
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
MSG_TYPE: Final = "MSG_TYPE"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
# Delivery at any time, from 5.x: what senders ask for, and what the broker notes.
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
"""The same as TIMER_DELIVER_MS, by the name that commercial versions of RocketMQ and their clients have."""
SHARDING_KEY: Final = "__SHARDINGKEY"  # from 5.x; 4.9.8 carries it like any user property

PRODUCER_ID: Final = "PRODUCER_ID"  # ours, with one of the next two: stored once, however often it is sent
PRODUCER_SEQ: Final = "PRODUCER_SEQ"
DEDUP_ID: Final = "DEDUP_ID"

FAILURE_REASON: Final = (
    "FAILURE_REASON"  # ours, of dead letters: what the last try ended with, where, and whose it was
)
FAILURE_TRACE: Final = "FAILURE_TRACE"
FAILURE_CLIENT: Final = "FAILURE_CLIENT"

KEY_SEPARATOR: Final = " "

# What a user may not set through `properties`. CHECK_IMMUNITY_TIME_IN_SECONDS and INNER_MULTI_DISPATCH are
# left out on purpose: senders are meant to set them. The two the broker alone writes for transactions are
# left out because the reference lets them pass too.
RESERVED: Final = frozenset(
    {
        ARRIVE_TIME, BUYER_ID, CLUSTER, CONSUME_START_TIME, CORRECTION_FLAG, CORRELATION_ID, DELAY,
        INNER_MULTI_QUEUE_OFFSET, INSTANCE_ID, KEYS, MAX_OFFSET, MAX_RECONSUME_TIMES, MIN_OFFSET, MQ2_FLAG,
        MSG_REGION, MSG_TYPE, ORIGIN_MESSAGE_ID, PGROUP, PUSH_REPLY_TIME, REAL_QID, REAL_TOPIC,
        RECONSUME_TIME, REPLY_TO_CLIENT, RETRY_TOPIC, SHARDING_KEY, TAGS, TIMER_DELAY_MS, TIMER_DELAY_SEC,
        TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY, TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, TIMER_OUT_MS, TIMER_ROLL_TIMES,
        TRACE_ON, TRANSFER_FLAG, TRAN_MSG,
        TTL, UNIQ_KEY, WAIT,
    }
)  # fmt: skip
FIRST_SENDING: Final = frozenset({PRODUCER_ID, PRODUCER_SEQ, DEDUP_ID})
"""Marks of one sending: a broker takes a message that has them again for the first one, and stores nothing."""
NOT_SENT_AGAIN: Final = RESERVED | FIRST_SENDING
"""What a new message made of a stored one may not have: its own sending gives it these anew."""
