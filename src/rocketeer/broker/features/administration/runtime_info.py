"""How the broker is, in RocketMQ's names and texts (28), and what it counted under a name and a key (315)."""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.observe.recorder import MeanFigure, Recorder
from rocketeer.protocol.bodies.broker_stats import BrokerStats, StatsFigure, encode_broker_stats
from rocketeer.protocol.bodies.kv import encode_kv_table
from rocketeer.protocol.codes import VERSION, RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.admin import ViewBrokerStatsHeader
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.versions import version_name
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices
from rocketeer.store.message_store import MessageStore

_PUT_TIMES: Final = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s",
    "4~5s", "5~10s", "10s~",
)  # fmt: skip
_NO_POOL: Final = (1 << 31) - 1
"""What RocketMQ says of its pool of transient buffers when there is none."""

MoreFigures = Callable[[], Mapping[str, str]]


class RuntimeInfo:
    """Every figure is measured or counted; what RocketMQ queues for its threads waits for the loop here."""

    def __init__(
        self,
        recorder: Recorder,
        store: MessageStore,
        settings: Mapping[str, str],
        clock: Clock,
        *,
        log_folder: Path,
        others: Iterable[MoreFigures],
    ) -> None:
        """`settings` are the keys in force; `others` are what features tell of themselves; read when asked."""
        self._recorder = recorder
        self._store = store
        self._settings = settings
        self._clock = clock
        self._log_folder = log_folder
        self._others = others

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.VIEW_BROKER_STATS_DATA: self.broker_stats,
        }

    async def runtime_info(self, command: Command, connection: Connection) -> Command:
        await in_slices(self._recorder.catch_up())
        disk = await asyncio.to_thread(shutil.disk_usage, self._log_folder)
        capacity = f"Total : {_size_text(disk.total)}, Free : {_size_text(disk.free)}."
        table = {**self.figures(), "commitLogDirCapacity": capacity}
        return reply(command, body=encode_kv_table(table))

    async def broker_stats(self, command: Command, connection: Connection) -> Command:
        await in_slices(self._recorder.catch_up())
        header = decode_header(ViewBrokerStatsHeader, command.ext)
        figures = await in_slices(self._recorder.figures(header.stats_name, header.stats_key))
        if figures is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        return reply(command, body=encode_broker_stats(BrokerStats(*map(_figure, figures))))

    def figures(self) -> dict[str, str]:
        """All of them but those that take a look at the disk."""
        table = {**self._identity(), **self._messages(), **self._times(), **self._storage(), **self._queues()}
        for other in self._others:
            table.update(other())
        return table

    def _identity(self) -> dict[str, str]:
        start_ms = self._recorder.start_ms
        return {
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": version_name(VERSION),
            "bootTimestamp": str(start_ms),
            "runtime": _span_text((self._clock.now_ms() - start_ms) // 1000),
            "startAcceptSendRequestTimeStamp": self._settings["startAcceptSendRequestTimeStamp"],
        }

    def _messages(self) -> dict[str, str]:
        counters, days, rates = self._recorder.counters, self._recorder.days, self._recorder.rates
        size = self._recorder.stored.sizes_sum
        measured = sum(self._recorder.stored.sizes)
        return {
            "putMessageTimesTotal": str(counters.puts),
            "putMessageFailedTimes": str(counters.puts_failed),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": str(size / measured if measured else 0.0),
            "putTps": rates.text("put"),
            "getFoundTps": rates.text("found"),
            "getMissTps": rates.text("missed"),
            "getTransferedTps": rates.text("transferred"),
            "getTotalTps": rates.text("got"),
            "msgPutTotalTodayNow": str(counters.puts),
            "msgGetTotalTodayNow": str(counters.messages_out),
            "msgPutTotalTodayMorning": str(days.today[0]),
            "msgGetTotalTodayMorning": str(days.today[1]),
            "msgPutTotalYesterdayMorning": str(days.yesterday[0]),
            "msgGetTotalYesterdayMorning": str(days.yesterday[1]),
        }

    def _times(self) -> dict[str, str]:
        recorder = self._recorder
        counts = zip(_PUT_TIMES, recorder.put_times(), strict=True)
        return {
            "putMessageDistributeTime": "".join(f"[{span}]:{count} " for span, count in counts),
            "putMessageEntireTimeMax": str(recorder.counters.put_ms_max),
            "getMessageEntireTimeMax": str(recorder.counters.get_ms_max),
            "putLatency99": f"{recorder.put_ms_at(0.99):.2f}",
            "putLatency999": f"{recorder.put_ms_at(0.999):.2f}",
            # One thread stores and answers: while it answers, it is not held up in the middle of storing.
            "pageCacheLockTimeMills": "0",
        }

    def _storage(self) -> dict[str, str]:
        store = self._store
        log_percent, queue_percent = store.disk_used_percent
        return {
            "commitLogMinOffset": str(store.min_log_offset),
            "commitLogMaxOffset": str(store.max_log_offset),
            "earliestMessageTimeStamp": str(store.first_store_ms()),
            "dispatchBehindBytes": str(store.max_log_offset - store.dispatched_log_offset),
            "dispatchMaxBuffer": str(store.unindexed),
            "remainHowManyDataToFlush": _size_text(max(0, store.max_log_offset - store.flushed_log_offset)),
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
            "commitLogDiskRatio": str(log_percent / 100),
            f"commitLogDiskRatio_{self._log_folder}": str(log_percent / 100),
            "consumeQueueDiskRatio": str(queue_percent / 100),
        }

    def _queues(self) -> dict[str, str]:
        late_ms = str(self._recorder.late_ms)
        return {
            "sendThreadPoolQueueSize": str(self._store.waiting_for_disk),
            "sendThreadPoolQueueCapacity": self._settings["sendThreadPoolQueueCapacity"],
            "sendThreadPoolQueueHeadWaitTimeMills": late_ms,
            # What is read is served in the same turn of the loop: nothing queues up between reading and serving.
            "pullThreadPoolQueueSize": "0",
            "pullThreadPoolQueueCapacity": self._settings["pullThreadPoolQueueCapacity"],
            "pullThreadPoolQueueHeadWaitTimeMills": late_ms,
            "queryThreadPoolQueueSize": "0",
            "queryThreadPoolQueueCapacity": self._settings["queryThreadPoolQueueCapacity"],
            "queryThreadPoolQueueHeadWaitTimeMills": late_ms,
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": self._settings["endTransactionPoolQueueCapacity"],
        }


def _figure(averaged: MeanFigure) -> StatsFigure:
    return StatsFigure(averaged.figure.sum, averaged.figure.tps, averaged.average)


def _span_text(seconds: int) -> str:
    """As RocketMQ writes it: `[ 0 days, 0 hours, 1 minutes, 15 seconds ]`."""
    minutes, second = divmod(max(0, seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"[ {days} days, {hour} hours, {minute} minutes, {second} seconds ]"


def _size_text(size: int) -> str:
    """As RocketMQ writes it: `387 B`, `73.5 GiB`."""
    if size < 1024:
        return f"{size} B"
    power = min(size.bit_length() - 1, 59) // 10
    return f"{size / (1 << 10 * power):.1f} {'KMGTP'[power - 1]}iB"
