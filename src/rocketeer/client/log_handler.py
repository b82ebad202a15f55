"""Log records as messages of a topic: a `logging.Handler` that never makes the program wait.

    logging.getLogger().addHandler(LogHandler("app-logs", nameserver="127.0.0.1:9876"))

A record is formatted where it is logged and put into a bounded queue; one thread of the handler's own sends what has
gathered as batches. When brokers cannot keep up or are away, the oldest records in the queue go, and the next batch
says how many. Records of Rocketeer's own loggers, and whatever is logged while sending, are not sent: they would
bring forth the next ones. What waits when the program ends is sent then. A forked child sends what it logs itself; a
process of `multiprocessing` ends without being asked, so let it call `logging.shutdown()` last.
"""

import atexit
import logging
import sys
import threading
import time
from collections import deque
from typing import Final, Unpack

from rocketeer.client.core.config import ProducerOptions
from rocketeer.client.core.encoding import split_batch
from rocketeer.client.sync import forking
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.client.sync.producer import Producer
from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.model.message import Message

OWN: Final = "rocketeer"
BATCH_MESSAGES: Final = 500
BODY_BYTES_MAX: Final = 256 << 10
"""A longer record is cut."""
AGAIN_S: Final = 1.0
"""Pause after a batch that no broker took."""
_LINE: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
_sending = threading.local()


class LogHandler(logging.Handler):
    """Sends log records to a topic, in batches, from a thread of its own.

    The body is the formatted record (UTF-8), the tag its level, the properties `logger` and `process` where it comes
    from. `flush_interval_s` is how long records gather, `records_max` how many may wait; over that the oldest are
    dropped, counted in `dropped` and told in a record of their own. Options are a producer's.
    """

    def __init__(
        self,
        topic: str,
        *,
        group: str = "rocketeer-logs",
        level: int | str = logging.NOTSET,
        flush_interval_s: float = 0.5,
        records_max: int = 10_000,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(level)
        if flush_interval_s <= 0 or records_max < 1:
            raise ConfigError(
                f"flush_interval_s {flush_interval_s}, records_max {records_max}: more than 0, and 1 or more"
            )
        Message(topic, b"")  # a topic that cannot be is told here
        self._topic = topic
        self._producer = Producer(group, **options)
        self._every_s = flush_interval_s
        self._waiting: deque[Message] = deque(maxlen=records_max)
        self.dropped = 0
        """Records that were not sent because too many waited."""
        self._told_dropped = 0
        self._unsent = 0
        self._due = threading.Event()
        assert self.lock is not None, "made by logging, which also mends it in forked children"
        self._idle = threading.Condition(self.lock)
        self._failing = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop_thread: LoopThread | None = None
        self.setFormatter(logging.Formatter(_LINE))
        atexit.register(self.close)  # before the interpreter ends its threads
        forking.register(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Put the record into the queue; called by `logging`."""
        if self._closing or getattr(_sending, "now", False):
            return
        if record.name == OWN or record.name.startswith(f"{OWN}."):
            return
        try:
            message = Message(
                self._topic,
                self.format(record).encode("utf-8", "replace")[:BODY_BYTES_MAX],
                tags=record.levelname,
                properties={"logger": record.name or "root", "process": str(record.process)},
            )
        except Exception:
            self.handleError(record)
            return
        with self._idle:
            if len(self._waiting) == self._waiting.maxlen:
                self.dropped += 1
            else:
                self._unsent += 1
            self._waiting.append(message)
        if self._thread is None or not self._thread.is_alive():
            self._start()
        if len(self._waiting) >= BATCH_MESSAGES:
            self._due.set()

    def _start(self) -> None:
        with self._idle:
            if self._thread is None or not self._thread.is_alive():  # in a forked child it is not
                if self._loop_thread is None:
                    self._loop_thread = _producers_thread()
                self._thread = threading.Thread(target=self._run, name="rocketeer-logs", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float = 5.0) -> None:
        """Wait until everything logged so far was sent, or the time is over."""
        if getattr(_sending, "now", False):
            return
        self._due.set()
        with self._idle:
            self._idle.wait_for(lambda: not self._unsent or self._thread is None, timeout_s)

    def close(self) -> None:
        """Send what waits, for a few seconds at most, and end."""
        if not self._closing:
            atexit.unregister(self.close)
            self.flush()
            self._closing = True
            self._due.set()
            if self._thread is not None:
                self._thread.join(self._producer.config.close_timeout_s + AGAIN_S)
            self._producer.close()
            if self._loop_thread is not None:
                self._loop_thread.release()
        super().close()

    def after_fork(self) -> None:
        """Reset in a forked child: the parent sends the queued records, and the sending thread is not here."""
        assert self.lock is not None
        self._waiting.clear()
        self._unsent = 0
        self._told_dropped = self.dropped
        self._due = threading.Event()  # the parent's threads may hold the locks of both
        self._idle = threading.Condition(self.lock)
        self._failing = False
        self._thread = self._loop_thread = None

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        _sending.now = True
        while not self._closing:
            self._due.wait(self._every_s)
            self._due.clear()
            while self._waiting:
                if not self._send_some():
                    if self._closing:
                        return
                    time.sleep(AGAIN_S)

    def _send_some(self) -> bool:
        """Send the first ones; those that could not be sent stay, as long as there is room."""
        with self._idle:
            count = min(BATCH_MESSAGES, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            dropped, self._told_dropped = self.dropped - self._told_dropped, self.dropped
        if dropped:
            text = f"{dropped} log records were dropped: too many waited"
            batch.append(Message(self._topic, text.encode(), tags="WARNING", properties={"logger": OWN}))
        sent = 0
        try:
            for part in split_batch(batch):
                self._producer.send(part)
                sent += len(part)
            self._failing = False
        except RocketeerError as error:
            if not self._failing:
                print(f"rocketeer: log records not sent yet: {error}", file=sys.stderr)
            self._failing = True
            self._put_back(batch[sent:count], dropped)
        with self._idle:
            self._unsent -= min(sent, count)
            self._idle.notify_all()
        return not self._failing

    def _put_back(self, batch: list[Message], dropped: int) -> None:
        with self._idle:
            self._told_dropped -= dropped
            room = (self._waiting.maxlen or 0) - len(self._waiting)
            lost = max(len(batch) - room, 0)
            self.dropped += lost
            self._unsent -= lost
            self._waiting.extendleft(reversed(batch[lost:]))


def _producers_thread() -> LoopThread:
    """Start the sending thread with the first record: an interpreter that is shutting down can start none."""
    _sending.now = True  # asyncio says something to its log meanwhile
    try:
        return LoopThread.acquire()
    finally:
        _sending.now = False
