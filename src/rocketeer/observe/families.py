"""Every metric there is: its name, its kind and what it tells. Exporters, dashboards and alerts use these names.

`/metrics` has RocketMQ 5's names with the units that its exporters append from 5.3 on; `/metrics/exporter` those of
rocketmq-exporter (RocketMQ 4). A test compares what is served, and what the dashboard and the alerts ask for, with
this list.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One metric; its series differ in their labels."""

    name: str
    kind: str
    help: str


def _gauge(name: str, text: str) -> Family:
    return Family(name, "gauge", text)


def _counter(name: str, text: str) -> Family:
    return Family(name, "counter", text)


def _histogram(name: str, text: str) -> Family:
    return Family(name, "histogram", text)


# --- RocketMQ 5 ------------------------------------------------------------------------------

PROCESSOR_WATERMARK: Final = _gauge("rocketmq_processor_watermark", "Requests that wait, by processor")
BROKER_PERMISSION: Final = _gauge(
    "rocketmq_broker_permission", "What the broker may be used for: 4 read, 2 write"
)
TOPIC_NUMBER: Final = _gauge("rocketmq_topic_number", "Topics")
GROUP_NUMBER: Final = _gauge("rocketmq_consumer_group_number", "Consumer groups")
MESSAGES_IN: Final = _counter("rocketmq_messages_in_total", "Messages stored in the topic since the start")
MESSAGES_OUT: Final = _counter("rocketmq_messages_out_total", "Messages that groups got since the start")
THROUGHPUT_IN: Final = _counter("rocketmq_throughput_in_total", "Bytes stored in the topic since the start")
THROUGHPUT_OUT: Final = _counter("rocketmq_throughput_out_total", "Bytes that groups got since the start")
MESSAGE_SIZE: Final = _histogram("rocketmq_message_size", "Sizes of stored messages in bytes")
TOPIC_CREATE_TIME: Final = _histogram(
    "rocketmq_topic_create_execution_time_milliseconds", "How long administrators' changes of topics took"
)
GROUP_CREATE_TIME: Final = _histogram(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    "How long administrators' changes of groups took",
)
PRODUCER_CONNECTIONS: Final = _gauge("rocketmq_producer_connections", "Connected producers")
CONSUMER_CONNECTIONS: Final = _gauge("rocketmq_consumer_connections", "Connected consumers")
LAG_MESSAGES: Final = _gauge("rocketmq_consumer_lag_messages", "Messages the group has not consumed")
LAG_MESSAGES_BY_QUEUE: Final = _gauge(
    "rocketeer_consumer_lag_messages_by_queue", "The same for each queue with a lag (metricsLagPerQueue)"
)
LAG_LATENCY: Final = _gauge(
    "rocketmq_consumer_lag_latency_milliseconds", "Age of the oldest message the group has not consumed"
)
INFLIGHT: Final = _gauge("rocketmq_consumer_inflight_messages", "Messages the group got and has not consumed")
QUEUEING_LATENCY: Final = _gauge(
    "rocketmq_consumer_queueing_latency_milliseconds", "Age of the oldest message the group did not get"
)
READY: Final = _gauge("rocketmq_consumer_ready_messages", "Messages the group did not get yet")
SEND_TO_DLQ: Final = _counter("rocketmq_send_to_dlq_messages_total", "Messages that became dead letters")
COMMITS: Final = _counter("rocketmq_commit_messages_total", "Transactions that were committed")
ROLLBACKS: Final = _counter("rocketmq_rollback_messages_total", "Transactions that were rolled back")
FINISH_LATENCY: Final = _histogram(
    "rocketmq_finish_message_latency_milliseconds", "From a transaction's half message to its commit"
)
HALF_MESSAGES: Final = _gauge("rocketmq_half_messages", "Transactions that are open")
STORAGE_SIZE: Final = _gauge("rocketmq_storage_size_bytes", "Used bytes of the store's disk")
DISK_USED: Final = _gauge(
    "rocketeer_disk_used_ratio",
    "How full the disk is, as retention sees it: the log's, and that of the queues",
)
FLUSH_BEHIND: Final = _gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not on disk yet"
)
DISPATCH_BEHIND: Final = _gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Bytes of the log that queues or index do not know yet"
)
RESERVE_TIME: Final = _gauge(
    "rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message of the log"
)
TIMING_MESSAGES: Final = _gauge("rocketmq_timing_messages", "Timed messages that wait")
TIMER_ENQUEUED: Final = _counter("rocketmq_timer_enqueue_total", "Timed messages that were stored")
TIMER_DEQUEUED: Final = _counter("rocketmq_timer_dequeue_total", "Timed messages that were delivered")
TIMER_ENQUEUE_LAG: Final = _gauge(
    "rocketmq_timer_enqueue_lag", "Timed messages that are stored and not yet known to wait"
)
TIMER_ENQUEUE_LATENCY: Final = _gauge(
    "rocketmq_timer_enqueue_latency_milliseconds",
    "Age of the oldest timed message that is not yet known to wait",
)
TIMER_DEQUEUE_LAG: Final = _gauge(
    "rocketmq_timer_dequeue_lag", "Timed messages that are due and not delivered"
)
TIMER_DEQUEUE_LATENCY: Final = _gauge(
    "rocketmq_timer_dequeue_latency_milliseconds", "How late the timed message that is due longest is"
)
DELAY_LATENCY: Final = _histogram(
    "rocketmq_delay_message_latency_seconds", "How far ahead timed messages were timed"
)
RPC_LATENCY: Final = _histogram("rocketmq_rpc_latency_milliseconds", "From a request to its reply")
SLAVES: Final = _gauge("rocketeer_slaves", "Slaves that are connected to this master")
SLAVE_BEHIND: Final = _gauge("rocketeer_slave_behind_bytes", "How much of the master's log a slave lacks")
NAMESERVER_BROKERS: Final = _gauge("rocketeer_nameserver_brokers", "Brokers that are registered and alive")

BROKER_FAMILIES: Final = (
    PROCESSOR_WATERMARK, BROKER_PERMISSION, TOPIC_NUMBER, GROUP_NUMBER, MESSAGES_IN, MESSAGES_OUT, THROUGHPUT_IN,
    THROUGHPUT_OUT, MESSAGE_SIZE, TOPIC_CREATE_TIME, GROUP_CREATE_TIME, PRODUCER_CONNECTIONS,
    CONSUMER_CONNECTIONS, LAG_MESSAGES, LAG_LATENCY, INFLIGHT, QUEUEING_LATENCY, READY, SEND_TO_DLQ, COMMITS,
    ROLLBACKS, FINISH_LATENCY, HALF_MESSAGES, STORAGE_SIZE, DISK_USED, FLUSH_BEHIND, DISPATCH_BEHIND, RESERVE_TIME,
    TIMING_MESSAGES, TIMER_ENQUEUED, TIMER_DEQUEUED, TIMER_ENQUEUE_LAG, TIMER_ENQUEUE_LATENCY, TIMER_DEQUEUE_LAG,
    TIMER_DEQUEUE_LATENCY, DELAY_LATENCY, RPC_LATENCY, SLAVES, SLAVE_BEHIND,
)  # fmt: skip
NAMESERVER_FAMILIES: Final = (NAMESERVER_BROKERS, TOPIC_NUMBER, RPC_LATENCY)

# --- rocketmq-exporter -----------------------------------------------------------------------

X_BROKER_TPS: Final = _gauge("rocketmq_broker_tps", "Messages a second stored, over the last minute")
X_BROKER_QPS: Final = _gauge("rocketmq_broker_qps", "Messages a second got, over the last minute")
X_PRODUCER_TPS: Final = _gauge(
    "rocketmq_producer_tps", "Messages a second stored in the topic, over the last minute"
)
X_PRODUCER_SIZE: Final = _gauge("rocketmq_producer_message_size", "Bytes a second stored in the topic")
X_PRODUCER_OFFSET: Final = _gauge("rocketmq_producer_offset", "The sum of the topic's queues' ends")
X_PRODUCER_COUNT: Final = _gauge("rocketmq_producer_count", "Connected producers of the group")
X_RETRY_OFFSET: Final = _gauge("rocketmq_topic_retry_offset", "The sum of the retry topic's queues' ends")
X_DLQ_OFFSET: Final = _gauge("rocketmq_topic_dlq_offset", "Dead letters of the group")
X_CONSUMER_TPS: Final = _gauge(
    "rocketmq_consumer_tps", "Messages a second the group got, over the last minute"
)
X_CONSUMER_SIZE: Final = _gauge("rocketmq_consumer_message_size", "Bytes a second the group got")
X_CONSUMER_OFFSET: Final = _gauge(
    "rocketmq_consumer_offset", "The sum of the queues' ends the group consumes"
)
X_GROUP_CONSUME_TPS: Final = _gauge("rocketmq_group_consume_tps", "Messages a second the group consumes")
X_GROUP_OFFSET: Final = _gauge("rocketmq_group_consume_total_offset", "The sum of the group's offsets")
X_SEND_BACK: Final = _gauge("rocketmq_send_back_nums", "Messages a second that came back to be tried again")
X_GROUP_LATENCY: Final = _gauge(
    "rocketmq_group_get_latency_by_storetime", "Age of the oldest message the group has not consumed, ms"
)
X_GROUP_DIFF: Final = _gauge("rocketmq_group_diff", "Messages the group has not consumed")
X_GROUP_RETRY_DIFF: Final = _gauge("rocketmq_group_retrydiff", "Messages that wait for another try")
X_GROUP_DLQ_DIFF: Final = _gauge("rocketmq_group_dlqdiff", "Dead letters of the group")
X_GROUP_COUNT: Final = _gauge("rocketmq_group_count", "Connected consumers of the group")

_RUNTIME: Final = {
    "commitlog_disk_ratio": "commitLogDiskRatio",
    "consumequeue_disk_ratio": "consumeQueueDiskRatio",
    "commitlog_maxoffset": "commitLogMaxOffset",
    "commitlog_minoffset": "commitLogMinOffset",
    "dispatch_behind_bytes": "dispatchBehindBytes",
    "dispatch_maxbuffer": "dispatchMaxBuffer",
    "earliest_message_timestamp": "earliestMessageTimeStamp",
    "getmessage_entire_time_max": "getMessageEntireTimeMax",
    "putmessage_entire_time_max": "putMessageEntireTimeMax",
    "putmessage_times_total": "putMessageTimesTotal",
    "put_message_average_size": "putMessageAverageSize",
    "put_message_size_total": "putMessageSizeTotal",
    "put_latency_99": "putLatency99",
    "put_latency_999": "putLatency999",
    "pagecache_lock_time_mills": "pageCacheLockTimeMills",
    "remain_transientstore_buffer_numbs": "remainTransientStoreBufferNumbs",
    "start_accept_sendrequest_time": "startAcceptSendRequestTimeStamp",
    "msg_put_total_today_now": "msgPutTotalTodayNow",
    "msg_gettotal_today_now": "msgGetTotalTodayNow",
    "msg_puttotal_todaymorning": "msgPutTotalTodayMorning",
    "msg_gettotal_todaymorning": "msgGetTotalTodayMorning",
    "msg_puttotal_yesterdaymorning": "msgPutTotalYesterdayMorning",
    "msg_gettotal_yesterdaymorning": "msgGetTotalYesterdayMorning",
    "send_threadpool_queue_size": "sendThreadPoolQueueSize",
    "send_threadpoolqueue_capacity": "sendThreadPoolQueueCapacity",
    "send_threadpoolqueue_headwait_timemills": "sendThreadPoolQueueHeadWaitTimeMills",
    "pull_threadpoolqueue_size": "pullThreadPoolQueueSize",
    "pull_threadpoolqueue_capacity": "pullThreadPoolQueueCapacity",
    "pull_threadpoolqueue_headwait_timemills": "pullThreadPoolQueueHeadWaitTimeMills",
    "query_threadpoolqueue_size": "queryThreadPoolQueueSize",
    "query_threadpool_queue_capacity": "queryThreadPoolQueueCapacity",
    "query_threadpoolqueue_headwait_timemills": "queryThreadPoolQueueHeadWaitTimeMills",
}
_PMDT: Final = (
    "0ms", "0to10ms", "10to50ms", "50to100ms", "100to200ms", "200to500ms", "500to1s", "1to2s", "2to3s", "3to4s",
    "4to5s", "5to10s", "10stomore",
)  # fmt: skip


def _runtime(name: str, told_as: str) -> Family:
    return _gauge(f"rocketmq_brokeruntime_{name}", f"{told_as} of the broker's runtime info")


X_RUNTIME: Final = {key: _runtime(name, key) for name, key in _RUNTIME.items()}
"""By the key of the runtime info (28)."""
X_PUT_TIMES: Final = tuple(_runtime(f"pmdt_{span}", "putMessageDistributeTime") for span in _PMDT)
"""One for each span of the put times."""
X_RATES: Final = {
    (total, span_s): _runtime(f"{name}_tps{span_s}", key)
    for total, name, key in (
        ("put", "put", "putTps"),
        ("found", "getfound", "getFoundTps"),
        ("missed", "getmiss", "getMissTps"),
        ("transferred", "gettransfered", "getTransferedTps"),
        ("got", "gettotal", "getTotalTps"),
    )
    for span_s in (10, 60, 600)
}
"""By the recorder's total and the span."""
X_CAPACITY_TOTAL: Final = _runtime("commitlogdir_capacity_total", "commitLogDirCapacity")
X_CAPACITY_FREE: Final = _runtime("commitlogdir_capacity_free", "commitLogDirCapacity")
X_TO_FLUSH: Final = _runtime("remain_howmanydata_toflush", "remainHowManyDataToFlush")

EXPORTER_FAMILIES: Final = (
    X_BROKER_TPS, X_BROKER_QPS, X_PRODUCER_TPS, X_PRODUCER_SIZE, X_PRODUCER_OFFSET, X_PRODUCER_COUNT,
    X_RETRY_OFFSET, X_DLQ_OFFSET, X_CONSUMER_TPS, X_CONSUMER_SIZE, X_CONSUMER_OFFSET, X_GROUP_CONSUME_TPS,
    X_GROUP_OFFSET, X_SEND_BACK, X_GROUP_LATENCY, X_GROUP_DIFF, X_GROUP_RETRY_DIFF, X_GROUP_DLQ_DIFF,
    X_GROUP_COUNT, *X_RUNTIME.values(), *X_PUT_TIMES, *X_RATES.values(), X_CAPACITY_TOTAL, X_CAPACITY_FREE,
    X_TO_FLUSH,
)  # fmt: skip
