"""The push consumer for threads, all but its public methods.

It hosts the consumer of `rocketeer.aio` on the loop thread; listeners run in threads of their own, coroutine
functions on the loop.
"""

import signal
import threading
from types import FrameType
from typing import Any

from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.sync.host import HostedConsumer
from rocketeer.errors import ClientClosed
from rocketeer.model.queue import MessageQueue


class PushConsumerBase(HostedConsumer[PushConsumer]):
    """Starts, runs and closes the hosted consumer."""

    def _set_up(self, hosted: PushConsumer) -> None:
        super()._set_up(hosted)
        self._stop = threading.Event()

    def _start(self) -> None:
        self._stop.clear()
        self._host.start(self._hosted.start, self.config.start_timeout_s)

    def _close(self) -> None:
        self._stop.set()
        self._host.close(self._hosted.close, self.config.close_timeout_s)

    def _run(self) -> None:
        """Start, consume until a signal or `close`, and close; a second Ctrl-C raises at once instead of waiting."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self._stop.is_set():
                raise KeyboardInterrupt
            self._stop.set()
            self._host.cancel_start()

        before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._stop.clear()
        try:
            for number in before:
                signal.signal(number, stop)
            try:
                self._host.start(self._hosted.start, self.config.start_timeout_s)
            except ClientClosed:
                if not self._stop.is_set():
                    raise
            self._stop.wait()
        finally:
            try:
                self._close()
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _queues(self) -> list[MessageQueue]:
        return self._do(lambda: self._hosted.queues) if self._host.running else []
