"""Settings of RocketMQ 4.9.8 that this engine does not act on: each has its reason, and is named when it is set.

docs/keys.md is written from this and from the table of keys (`make keys`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketeer.config.keys import find_key
from rocketeer.config.settings import Settings
from rocketeer.errors import ConfigError

_NO_POOLS: Final = (
    "requests are served by one event loop: there are no thread pools and no queues in front of them"
)
_NO_NETTY: Final = "a setting of Netty, Java's network library"
_NOT_READ: Final = "RocketMQ 4.9.8 itself does not read it"
_WRITES_AT_ONCE: Final = (
    "messages go straight into the mapped file: there is no pool of buffers to commit from"
)
_STATISTICS: Final = "the figures are kept anyway: docs/metrics.md"
_DLEDGER: Final = "of DLedger, which is not there"
_LIGHT_QUEUES: Final = "of light queues, which are not there"
_DELIVERS_ALONG: Final = "delayed messages are stored by the loop itself, which waits for nobody"

NO_EFFECT: Final = {
    **dict.fromkeys(
        (
            "adminBrokerThreadPoolNums", "clientManageThreadPoolNums", "consumerManageThreadPoolNums",
            "endTransactionThreadPoolNums", "heartbeatThreadPoolNums", "processReplyMessageThreadPoolNums",
            "pullMessageThreadPoolNums", "putMessageFutureThreadPoolNums", "queryMessageThreadPoolNums",
            "sendMessageThreadPoolNums", "clientManagerThreadPoolQueueCapacity",
            "consumerManagerThreadPoolQueueCapacity", "endTransactionPoolQueueCapacity",
            "heartbeatThreadPoolQueueCapacity", "putThreadPoolQueueCapacity", "queryThreadPoolQueueCapacity",
            "replyThreadPoolQueueCapacity",
        ),
        _NO_POOLS,
    ),
    **dict.fromkeys(
        ("sendThreadPoolQueueCapacity", "pullThreadPoolQueueCapacity"),
        "requests do not queue up: who has waited too long is refused (waitTimeMillsIn...Queue)",
    ),
    **dict.fromkeys(
        (
            "serverCallbackExecutorThreads", "serverPooledByteBufAllocatorEnable", "serverSelectorThreads",
            "serverWorkerThreads", "useEpollNativeSelector", "writeBufferHighWaterMark", "writeBufferLowWaterMark",
            "clientCallbackExecutorThreads", "clientPooledByteBufAllocatorEnable", "clientWorkerThreads",
            "clientSocketRcvBufSize", "clientSocketSndBufSize", "serverAsyncSemaphoreValue",
            "serverOnewaySemaphoreValue", "clientAsyncSemaphoreValue", "clientOnewaySemaphoreValue",
            "clientChannelMaxIdleTimeSeconds", "clientCloseSocketIfTimeout",
        ),
        _NO_NETTY,
    ),
    **dict.fromkeys(
        (
            "channelNotActiveInterval", "commercialBigCount", "commercialEnable", "commercialTimerCount",
            "commercialTransCount", "filterServerNums", "flushConsumerOffsetHistoryInterval", "highSpeedMode",
            "maxDelayTime", "putMsgIndexHightWater",
        ),
        _NOT_READ,
    ),
    **dict.fromkeys(
        (
            "commitCommitLogLeastPages", "commitCommitLogThoroughInterval", "commitIntervalCommitLog",
            "fastFailIfNoBufferInStorePool", "transientStorePoolEnable", "transientStorePoolSize",
        ),
        _WRITES_AT_ONCE,
    ),
    **dict.fromkeys(
        ("autoDeleteUnusedStats", "commercialBaseCount", "diskFallRecorded", "enableDetailStat",
         "enableScheduleMessageStats"),
        _STATISTICS,
    ),
    **dict.fromkeys(
        ("dLegerGroup", "dLegerPeers", "dLegerSelfId", "isEnableBatchPush", "preferredLeaderId",
         "storePathDLedgerCommitLog"),
        _DLEDGER,
    ),
    **dict.fromkeys(("maxLmqConsumeQueueNum",), _LIGHT_QUEUES),
    **dict.fromkeys(
        ("enableScheduleAsyncDeliver", "scheduleAsyncDeliverMaxPendingLimit",
         "scheduleAsyncDeliverMaxResendNum2Blocked"),
        _DELIVERS_ALONG,
    ),
    "bitMapLengthConsumeQueueExt": "the length follows from expectConsumerNumUseFilter and maxErrorRateOfBloomFilter",
    "clusterTest": "a name server that asks another one for its routes is not there",
    "connectTimeoutMillis": "a broker gives up on a name server after registerBrokerTimeoutMills",
    "consumerFallbehindThreshold": "groups that fall behind are not switched off: their lag is a metric",
    "debugLockEnable": "there is no lock on the log: one thread writes it",
    "disableConsumeIfConsumerReadSlowly": "groups that fall behind are not switched off: their lag is a metric",
    "flushConsumeQueueLeastPages":
        "queues are written out together, after 64 MB of log or flushConsumeQueueThoroughInterval",
    "flushLeastPagesWhenWarmMapedFile": "the log's next pages are brought into memory in idle time",
    "isolateLogEnable": "each broker's log file is under its own store",
    "productEnvName": "templates of topics from a central place are not there",
    "redeleteHangedFileInterval": "a file that is still read is deleted at once: its readers keep what they see",
    "rmqAddressServerDomain": "of fetchNamesrvAddrByAddressServer, which is refused",
    "rmqAddressServerSubGroup": "of fetchNamesrvAddrByAddressServer, which is refused",
    "startAcceptSendRequestTimeStamp": "sends are taken as soon as the broker runs; brokerPermission=4 refuses them",
    "transferMsgByHeap": "what is pulled goes from the mapped file to the socket, whatever is said here",
    "useReentrantLockWhenPutMessage": "there is no lock on the log: one thread writes it",
    "useTLS": "a broker talks TLS to others when tls.config.file says so",
    "warmMapedFileEnable": "the log's next pages are brought into memory in idle time",
}  # fmt: skip
"""By RocketMQ's key: why it changes nothing."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A setting that is refused, because whoever sets it relies on its effect."""

    why: str
    refused: Callable[[str], bool] = lambda text: text.strip().lower() == "true"


def _is_given(text: str) -> bool:
    return bool(text.strip())


REFUSED: Final = {
    "enableDLegerCommitLog": Refusal("DLedger is not available"),
    "duplicationEnable": Refusal("a log that others write is not available; brokerRole=SLAVE copies one"),
    "enableLmq": Refusal("light queues are not available"),
    "enableMultiDispatch": Refusal("light queues are not available"),
    "fetchNamesrvAddrByAddressServer": Refusal(
        "a broker does not ask an address server; give namesrvAddr, -n or NAMESRV_ADDR"
    ),
    "messageStorePlugIn": Refusal("Java classes cannot be loaded here", _is_given),
    "readOnlyCommitLogStorePaths": Refusal(
        "a log in several folders is not available: its messages would be missing", _is_given
    ),
}
"""By RocketMQ's key: what would be dangerous to ignore. Their other values (false, nothing) ask for nothing."""
LOG_FOLDERS: Final = Refusal("a log in several folders is not available: its messages would be missing")
"""Refusal of `storePathCommitLog` with a list."""


def refuse_unavailable(settings: Settings) -> None:
    """Raise ConfigError for what would be dangerous to ignore: somebody relies on it."""
    for key, refusal in REFUSED.items():
        text = settings.extras.get(key, "")
        if refusal.refused(text):
            raise ConfigError(f"{key}={text}: {refusal.why}")
    folder = settings.store.commit_log_dir
    if folder is not None and "," in str(folder):
        raise ConfigError(f"storePathCommitLog={folder}: {LOG_FOLDERS.why}")


def without_effect(settings: Settings) -> dict[str, str]:
    """RocketMQ's keys of the settings that were changed and change nothing here, each with the reason.

    (Of keys of RocketMQ 5, and of strangers, the reading of the file has warned already.)
    """
    changed = {}
    for name, text in settings.extras.items():
        key = find_key(name, settings.role.classes)
        if key is not None and name in NO_EFFECT and text.strip().lower() != (key.default or "").lower():
            changed[name] = NO_EFFECT[name]
    return changed
