"""The settings the engine runs by: frozen values, RocketMQ's key beside ours, the unit last in the name.

Whoever needs a setting is given one of these; how they are read from a file stands in `reading.py`.
"""

import os
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.config.limits import BrokerLimits, NamesrvLimits, ServerLimits


class FlushMode(StrEnum):
    """When a send is acknowledged: after the copy into the log, or after the disk has it."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(StrEnum):
    """A master answers after its own append (ASYNC) or after a slave has the bytes too (SYNC)."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class MetricsExporter(StrEnum):
    """Whether metrics are served to Prometheus; RocketMQ's other ways to export them are not there."""

    DISABLE = "DISABLE"
    PROM = "PROM"


METRICS_PORT = 5557
BROKER_PORT = 10911
NAMESRV_PORT = 9876


def local_address() -> str:
    """The address other machines reach us by, IPv6 when that is all there is; 127.0.0.1 when there is no other."""
    # Connecting a UDP socket sends nothing: it only asks the kernel which address it would use.
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def local_name() -> str:
    """The host name, RocketMQ's default for the broker's name."""
    return socket.gethostname() or "DEFAULT_BROKER"


def _rocketmq_home() -> Path | None:
    """Where an installation of RocketMQ has its folder `conf`, if the environment says so."""
    home = os.environ.get("ROCKETMQ_HOME")
    return Path(home) if home else None


def _java(key: str, **rules: Any) -> dict[str, Any]:
    """RocketMQ's key and its limits: `least` and `most`, or a `pattern` and what is `expected` in words."""
    return {"java": key, **rules}


_HOUR = "([01]?[0-9]|2[0-3])"
_DELAYS = {"pattern": "[0-9]+[smhd]( +[0-9]+[smhd])*", "expected": 'levels such as "1s 5s 10s 1m 2h"'}
_HOURS = {"pattern": f"{_HOUR}(;{_HOUR})*", "expected": 'hours of the day such as "04" or "02;16"'}
_ADDRESS = {
    "pattern": r"(\[[0-9a-fA-F:.]+\]|[^\s:;,/\[\]]+):"
    r"([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])",
    "expected": "host:port, for example broker.example.org:10911",
}
_LEVEL = {"pattern": "debug|info|warning|error", "expected": "debug, info, warning or error"}
_NAME = {"pattern": ".+", "expected": "a name"}
_PERCENT = {"least": 0, "most": 100}
_PORT = {"least": 1, "most": 65535}


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Where the log lives, how large its files are, when they reach the disk and when they are deleted."""

    store_path: Path = field(
        default_factory=lambda: Path.home() / "store", metadata=_java("storePathRootDir")
    )
    commit_log_dir: Path | None = field(default=None, metadata=_java("storePathCommitLog"))

    segment_bytes: int = field(default=1 << 30, metadata=_java("mappedFileSizeCommitLog", least=1024))
    consume_queue_bytes: int = field(
        default=300_000 * 20, metadata=_java("mappedFileSizeConsumeQueue", least=20)
    )
    queue_extension_enable: bool = field(default=False, metadata=_java("enableConsumeQueueExt"))
    queue_extension_bytes: int = field(
        default=48 << 20, metadata=_java("mappedFileSizeConsumeQueueExt", least=4096)
    )
    index_slots: int = field(default=5_000_000, metadata=_java("maxHashSlotNum", least=1))
    index_entries: int = field(default=20_000_000, metadata=_java("maxIndexNum", least=2))
    message_index_enable: bool = field(default=True, metadata=_java("messageIndexEnable"))
    message_index_safe: bool = field(default=False, metadata=_java("messageIndexSafe"))
    message_bytes_max: int = field(default=4 << 20, metadata=_java("maxMessageSize", least=1))
    check_crc_on_recover: bool = field(default=True, metadata=_java("checkCRCOnRecover"))

    flush_mode: FlushMode = field(default=FlushMode.ASYNC_FLUSH, metadata=_java("flushDiskType"))
    flush_interval_ms: int = field(default=500, metadata=_java("flushIntervalCommitLog", least=1))
    flush_least_pages: int = field(default=4, metadata=_java("flushCommitLogLeastPages", least=0))
    flush_timed: bool = field(default=True, metadata=_java("flushCommitLogTimed"))
    flush_thorough_ms: int = field(default=10_000, metadata=_java("flushCommitLogThoroughInterval", least=0))
    sync_flush_timeout_ms: int = field(default=5_000, metadata=_java("syncFlushTimeout", least=1))
    flush_queue_interval_ms: int = field(default=1_000, metadata=_java("flushIntervalConsumeQueue", least=1))
    flush_queue_thorough_ms: int = field(
        default=60_000, metadata=_java("flushConsumeQueueThoroughInterval", least=0)
    )
    flush_delay_offset_ms: int = field(default=10_000, metadata=_java("flushDelayOffsetInterval", least=1))

    reserved_hours: int = field(default=72, metadata=_java("fileReservedTime", least=0))
    delete_when: str = field(default="04", metadata=_java("deleteWhen", **_HOURS))
    delete_interval_ms: int = field(default=100, metadata=_java("deleteCommitLogFilesInterval", least=0))
    delete_queue_interval_ms: int = field(
        default=100, metadata=_java("deleteConsumeQueueFilesInterval", least=0)
    )
    clean_interval_ms: int = field(default=10_000, metadata=_java("cleanResourceInterval", least=1))
    destroy_forcibly_ms: int = field(
        default=120_000, metadata=_java("destroyMapedFileIntervalForcibly", least=0)
    )
    clean_file_forcibly: bool = field(default=True, metadata=_java("cleanFileForciblyEnable"))
    disk_max_used_percent: int = field(default=75, metadata=_java("diskMaxUsedSpaceRatio", **_PERCENT))
    # RocketMQ 4.9 takes these two from -D system properties; the keys are 5.x's.
    disk_warning_percent: int = field(default=90, metadata=_java("diskSpaceWarningLevelRatio", **_PERCENT))
    disk_clean_percent: int = field(default=85, metadata=_java("diskSpaceCleanForciblyRatio", **_PERCENT))

    pull_bytes_max_memory: int = field(
        default=262_144, metadata=_java("maxTransferBytesOnMessageInMemory", least=1)
    )
    pull_count_max_memory: int = field(
        default=32, metadata=_java("maxTransferCountOnMessageInMemory", least=1)
    )
    pull_bytes_max_disk: int = field(
        default=65_536, metadata=_java("maxTransferBytesOnMessageInDisk", least=1)
    )
    pull_count_max_disk: int = field(default=8, metadata=_java("maxTransferCountOnMessageInDisk", least=1))
    memory_ratio: int = field(default=40, metadata=_java("accessMessageInMemoryMaxRatio", **_PERCENT))
    query_count_max: int = field(default=32, metadata=_java("defaultQueryMaxNum", least=1))
    query_batch_max: int = field(default=64, metadata=_java("maxMsgsNumBatch", least=1))
    offset_check_in_slave: bool = field(default=False, metadata=_java("offsetCheckInSlave"))

    delay_levels: str = field(
        default="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        metadata=_java("messageDelayLevel", **_DELAYS),
    )
    # Keys of 5.x; there a message may be timed 3 days ahead, and second by second.
    timer_enable: bool = field(default=True, metadata=_java("timerWheelEnable"))
    timer_delay_s_max: int = field(default=366 * 86_400, metadata=_java("timerMaxDelaySec", least=1))
    timer_flush_ms: int = field(default=5_000, metadata=_java("timerFlushIntervalMs", least=1))
    timer_precision_ms: int = field(default=1, metadata=_java("timerPrecisionMs", least=1, most=60_000))
    os_page_cache_busy_ms: int = field(default=1_000, metadata=_java("osPageCacheBusyTimeOutMills", least=0))

    broker_role: BrokerRole = field(default=BrokerRole.ASYNC_MASTER, metadata=_java("brokerRole"))
    ha_port: int = field(default=BROKER_PORT + 1, metadata=_java("haListenPort", **_PORT))
    ha_master_address: str | None = field(default=None, metadata=_java("haMasterAddress"))
    ha_heartbeat_ms: int = field(default=5_000, metadata=_java("haSendHeartbeatInterval", least=1))
    ha_housekeeping_ms: int = field(default=20_000, metadata=_java("haHousekeepingInterval", least=1))
    ha_transfer_bytes: int = field(default=32_768, metadata=_java("haTransferBatchSize", least=1))
    ha_fall_behind_bytes_max: int = field(default=256 << 20, metadata=_java("haSlaveFallbehindMax"))
    slave_timeout_ms: int = field(default=3_000, metadata=_java("slaveTimeout", least=1))

    @property
    def commit_log_path(self) -> Path:
        """The folder of the log's files; it follows `store_path` unless it was set itself."""
        return self.commit_log_dir or self.store_path / "commitlog"


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """Who the broker is, whom it registers with, and what it allows."""

    cluster_name: str = field(default="DefaultCluster", metadata=_java("brokerClusterName", **_NAME))
    broker_name: str = field(default_factory=local_name, metadata=_java("brokerName", **_NAME))
    broker_id: int = field(default=0, metadata=_java("brokerId", least=0))
    host: str = field(default_factory=local_address, metadata=_java("brokerIP1", **_NAME))
    ha_host: str = field(default_factory=local_address, metadata=_java("brokerIP2", **_NAME))
    # A key of our own: where clients reach the broker when that is not brokerIP1 and listenPort.
    advertised_address: str | None = field(default=None, metadata=_java("advertisedAddress", **_ADDRESS))
    namesrv_addresses: tuple[str, ...] = field(default=(), metadata=_java("namesrvAddr"))
    rocketmq_home: Path | None = field(default_factory=_rocketmq_home, metadata=_java("rocketmqHome"))
    config_black_list: str = field(
        default="configBlackList;brokerConfigPath", metadata=_java("configBlackList")
    )
    permission: int = field(default=6, metadata=_java("brokerPermission", least=0, most=15))
    region_id: str = field(default="DefaultRegion", metadata=_java("regionId"))

    register_interval_ms: int = field(default=30_000, metadata=_java("registerNameServerPeriod", least=1))
    register_timeout_ms: int = field(default=6_000, metadata=_java("registerBrokerTimeoutMills", least=1))
    compressed_register: bool = field(default=False, metadata=_java("compressedRegister"))
    force_register: bool = field(default=True, metadata=_java("forceRegister"))

    auto_create_topic_enable: bool = field(default=True, metadata=_java("autoCreateTopicEnable"))
    auto_create_group_enable: bool = field(default=True, metadata=_java("autoCreateSubscriptionGroup"))
    default_queues: int = field(default=8, metadata=_java("defaultTopicQueueNums", least=1))
    cluster_topic_enable: bool = field(default=True, metadata=_java("clusterTopicEnable"))
    broker_topic_enable: bool = field(default=True, metadata=_java("brokerTopicEnable"))
    trace_topic_enable: bool = field(default=False, metadata=_java("traceTopicEnable"))
    trace_topic: str = field(default="RMQ_SYS_TRACE_TOPIC", metadata=_java("msgTraceTopicName"))
    trace_on: bool = field(default=True, metadata=_java("traceOn"))

    long_polling_enable: bool = field(default=True, metadata=_java("longPollingEnable"))
    short_polling_ms: int = field(default=1_000, metadata=_java("shortPollingTimeMills", least=1))
    notify_consumer_ids_changed_enable: bool = field(
        default=True, metadata=_java("notifyConsumerIdsChangedEnable")
    )
    flush_consumer_offset_ms: int = field(
        default=5_000, metadata=_java("flushConsumerOffsetInterval", least=1)
    )
    slave_read_enable: bool = field(default=False, metadata=_java("slaveReadEnable"))

    # On here, off in RocketMQ: a consumer with a SQL92 subscription works without a change of configuration.
    property_filter_enable: bool = field(default=True, metadata=_java("enablePropertyFilter"))
    filter_retry_enable: bool = field(default=False, metadata=_java("filterSupportRetry"))
    filter_bitmap_enable: bool = field(default=False, metadata=_java("enableCalcFilterBitMap"))
    filter_consumers: int = field(
        default=32, metadata=_java("expectConsumerNumUseFilter", least=1, most=4096)
    )
    filter_error_percent: int = field(
        default=20, metadata=_java("maxErrorRateOfBloomFilter", least=1, most=99)
    )
    filter_keep_dead_ms: int = field(default=86_400_000, metadata=_java("filterDataCleanTimeSpan", least=0))

    transaction_timeout_ms: int = field(default=6_000, metadata=_java("transactionTimeOut", least=0))
    transaction_checks_max: int = field(default=15, metadata=_java("transactionCheckMax", least=0))
    transaction_check_interval_ms: int = field(
        default=60_000, metadata=_java("transactionCheckInterval", least=1)
    )
    reject_transactions: bool = field(default=False, metadata=_java("rejectTransactionMessage"))

    # On here, off in 5.x: whoever holds a handle may take its message back.
    recall_enable: bool = field(default=True, metadata=_java("recallMessageEnable"))
    acl_enable: bool = field(default=False, metadata=_java("aclEnable"))
    store_reply_enable: bool = field(default=True, metadata=_java("storeReplyMessageEnable"))

    # Keys of 5.x; there metrics are served on brokerIP1. The last one is ours.
    metrics_exporter: MetricsExporter = field(
        default=MetricsExporter.DISABLE, metadata=_java("metricsExporterType")
    )
    metrics_host: str = field(default="127.0.0.1", metadata=_java("metricsPromExporterHost", **_NAME))
    metrics_port: int = field(default=METRICS_PORT, metadata=_java("metricsPromExporterPort", **_PORT))
    metrics_lag_per_queue: bool = field(default=False, metadata=_java("metricsLagPerQueue"))

    # A key of our own; without it the command line decides.
    log_level: str | None = field(default=None, metadata=_java("logLevel", **_LEVEL))

    # Keys of our own: how much is remembered of idempotent producers.
    idempotent_ids_max: int = field(
        default=4_000_000, metadata=_java("idempotentIdsMax", least=1, most=1 << 28)
    )
    idempotent_window: int = field(
        default=1_000, metadata=_java("idempotentSequenceWindow", least=1, most=1 << 20)
    )
    idempotent_idle_hours: int = field(
        default=72, metadata=_java("idempotentIdleHours", least=1, most=1 << 20)
    )

    fast_failure_enable: bool = field(default=True, metadata=_java("brokerFastFailureEnable"))
    send_wait_ms_max: int = field(default=200, metadata=_java("waitTimeMillsInSendQueue"))
    pull_wait_ms_max: int = field(default=5_000, metadata=_java("waitTimeMillsInPullQueue"))
    heartbeat_wait_ms_max: int = field(default=31_000, metadata=_java("waitTimeMillsInHeartbeatQueue"))
    transaction_wait_ms_max: int = field(default=3_000, metadata=_java("waitTimeMillsInTransactionQueue"))
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    group: ReplicaGroupConfig = field(default_factory=ReplicaGroupConfig)


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Where a server listens and how long it keeps a silent connection."""

    bind_host: str = field(default="0.0.0.0", metadata=_java("bindAddress"))  # a key of 5.x
    listen_port: int = field(default=BROKER_PORT, metadata=_java("listenPort", least=3, most=65535))
    idle_s: int = field(default=120, metadata=_java("serverChannelMaxIdleTimeSeconds", least=1))
    backlog: int = field(default=1_024, metadata=_java("serverSocketBacklog", least=1))
    send_buffer_bytes: int = field(default=0, metadata=_java("serverSocketSndBufSize", least=0))
    receive_buffer_bytes: int = field(default=0, metadata=_java("serverSocketRcvBufSize", least=0))
    # Keys of our own: requests without a nonce are refused; where the files are if not in $ROCKETMQ_HOME/conf.
    acl_require_nonce: bool = field(default=False, metadata=_java("aclRequireNonce"))
    acl_conf_dir: Path | None = field(default=None, metadata=_java("aclConfDir"))
    # RocketMQ takes these two from -D system properties.
    tls_mode: str = field(
        default="permissive",
        metadata=_java(
            "tls.server.mode",
            pattern="disabled|permissive|enforcing",
            expected="disabled, permissive or enforcing",
        ),
    )
    tls_file: Path = field(default=Path("/etc/rocketmq/tls.properties"), metadata=_java("tls.config.file"))
    credentials_file: Path | None = field(default=None, metadata=_java("credentialsFile"))
    """A key of our own: the account with which this server signs in to others."""
    home: Path | None = field(default_factory=_rocketmq_home)
    """The broker's or name server's `rocketmqHome`."""
    # Keys of our own: how brokers of one installation know each other, and who of them need not be known.
    peer_secret_file: Path | None = field(default=None, metadata=_java("peerSecretFile"))
    peer_addresses: str = field(default="", metadata=_java("peerAddresses"))
    limits: ServerLimits = field(default_factory=ServerLimits)

    @property
    def fast_port(self) -> int:
        """The second port of a broker: old clients send through it by default ("VIP channel")."""
        return self.listen_port - 2

    @property
    def acl_path(self) -> Path:
        """The folder of `plain_acl.yml` and `acl/`."""
        return self.acl_conf_dir or (self.home or Path.home()) / "conf"


@dataclass(frozen=True, kw_only=True)
class NamesrvConfig:
    """What a name server keeps on disk, and where."""

    kv_config_path: Path = field(
        default_factory=lambda: Path.home() / "namesrv" / "kvConfig.json", metadata=_java("kvConfigPath")
    )
    config_path: Path = field(
        default_factory=lambda: Path.home() / "namesrv" / "namesrv.properties",
        metadata=_java("configStorePath"),
    )
    rocketmq_home: Path | None = field(default_factory=_rocketmq_home, metadata=_java("rocketmqHome"))
    config_black_list: str = field(
        default="configBlackList;configStorePath;kvConfigPath", metadata=_java("configBlackList")
    )
    order_message_enable: bool = field(default=False, metadata=_java("orderMessageEnable"))
    # RocketMQ's name server has no access control: keys of our own.
    acl_enable: bool = field(default=False, metadata=_java("aclEnable"))
    acl_open_routes: bool = field(default=True, metadata=_java("aclOpenRoutes"))
    # Keys of our own, named as the broker's.
    metrics_exporter: MetricsExporter = field(
        default=MetricsExporter.DISABLE, metadata=_java("metricsExporterType")
    )
    metrics_host: str = field(default="127.0.0.1", metadata=_java("metricsPromExporterHost", **_NAME))
    metrics_port: int = field(default=METRICS_PORT + 1, metadata=_java("metricsPromExporterPort", **_PORT))
    # A key of our own; without it the command line decides.
    log_level: str | None = field(default=None, metadata=_java("logLevel", **_LEVEL))
    # RocketMQ's name server has these two as constants.
    broker_expiry_ms: int = 120_000
    scan_interval_ms: int = 10_000
    server: ServerConfig = field(default_factory=lambda: ServerConfig(listen_port=NAMESRV_PORT))
    limits: NamesrvLimits = field(default_factory=NamesrvLimits)
