"""Runs plans in the calling thread, on blocking sockets: no event loop, no hop to another thread.

    driver = BlockingDriver()
    result = driver.run(sender.send(outgoing))

Threads that run plans at the same time use a connection each (up to CONNECTIONS_MAX per address, then they take
turns), so none waits for another's answer.
"""

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, TypeVar

from rocketeer.client.core import rpc_hooks
from rocketeer.client.core.rpc_hooks import RpcHook
from rocketeer.client.plans.effects import Call, CallAll, Effect, Oneway, Parallel, Plan, Shared, Sleep
from rocketeer.client.secure import OPEN, ConnectionSecurity
from rocketeer.errors import ClientClosed, RocketeerError
from rocketeer.protocol.command import Command
from rocketeer.remoting.blocking import BlockingConnection

T = TypeVar("T")

CONNECTIONS_MAX: Final = 64
IDLE_S_MAX: Final = 60.0
"""Idle connections are closed after this."""

PARALLEL_THREADS_MAX: Final = 8
"""Plans that one plan has running side by side: each takes a thread and a connection."""


class BlockingDriver:
    """Runs plans on blocking sockets of the calling thread; one per producer, shared by its threads."""

    def __init__(self, security: ConnectionSecurity = OPEN, hooks: Sequence[RpcHook] = ()) -> None:
        self._security = security
        self._hooks = tuple(hooks)
        self._pools: dict[str, _Pool] = {}
        self._shared: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()
        self._closed = False

    def run(self, plan: Plan[T]) -> T:
        try:
            effect = next(plan)
            while True:
                try:
                    came = self._do(effect)
                except RocketeerError as error:
                    effect = plan.throw(error)
                else:
                    effect = plan.send(came)
        except StopIteration as end:
            result: T = end.value
            return result

    def close(self) -> None:
        """Close all connections; calls of other threads that wait on them get ConnectionLost."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connections without ending them."""
        for pool in self._pools.values():
            pool.abandon()

    def _do(self, effect: Effect) -> Any:
        if type(effect) is Call:  # nearly all of them
            if self._hooks:
                return self._hooked(effect.address, [effect.command], effect.timeout_s)[0]
            return self._pool(effect.address).invoke(effect.command, effect.timeout_s)
        match effect:
            case CallAll(address, commands, timeout_s):
                return self._hooked(address, commands, timeout_s)
            case Oneway(address, command, timeout_s):
                context = rpc_hooks.before(self._hooks, address, command, oneway=True)
                self._pool(address).oneway(command, timeout_s)
                rpc_hooks.after(self._hooks, context, None, None)
            case Sleep(seconds):
                time.sleep(seconds)
            case Shared(key, plan):
                return self._share(key, plan)
            case Parallel(plans, limit):
                return self._run_parallel(plans, limit)
        return None

    def _hooked(self, address: str, commands: Sequence[Command], timeout_s: float) -> list[Command]:
        contexts = [rpc_hooks.before(self._hooks, address, command) for command in commands]
        try:
            replies = self._pool(address).invoke_all(commands, timeout_s)
        except RocketeerError as error:
            for context in contexts:
                rpc_hooks.after(self._hooks, context, None, error)
            raise
        for context, reply in zip(contexts, replies, strict=True):
            rpc_hooks.after(self._hooks, context, reply, None)
        return replies

    def _run_parallel(self, plans: Sequence[Plan[Any]], limit: int) -> list[Any]:
        threads = min(limit, len(plans), PARALLEL_THREADS_MAX)
        if threads <= 1:
            return [self._outcome(plan) for plan in plans]
        with ThreadPoolExecutor(threads, "rocketeer-plan") as pool:
            return list(pool.map(self._outcome, plans))

    def _outcome(self, plan: Plan[Any]) -> Any:
        try:
            return self.run(plan)
        except RocketeerError as error:
            return error

    def _share(self, key: Hashable, plan: Plan[Any]) -> Any:
        with self._lock:
            outcome = self._shared.get(key)
            mine = outcome is None
            if outcome is None:
                outcome = self._shared[key] = Future()
        if mine:
            try:
                outcome.set_result(self.run(plan))
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                self._shared.pop(key, None)
        return outcome.result()

    def _pool(self, address: str) -> "_Pool":
        pool = self._pools.get(address)
        if pool is None:
            with self._lock:
                if self._closed:
                    raise _closed()
                pool = self._pools.setdefault(address, _Pool(address, self._security))
        return pool


def _closed() -> ClientClosed:
    return ClientClosed("the client was closed while a thread was still using it")


class _Pool:
    """The connections to one address: the last one used is the next one used, so the others may grow old."""

    def __init__(self, address: str, security: ConnectionSecurity) -> None:
        self._address = address
        self._security = security
        self._idle: deque[tuple[BlockingConnection, float]] = deque()
        self._all: list[BlockingConnection] = []
        self._turn = itertools.count()
        self._lock = Lock()
        self._closed = False

    def invoke(self, command: Command, timeout_s: float) -> Command:
        connection, mine = self._take()
        try:
            return connection.invoke(command, timeout_s)
        finally:
            if mine:
                self._give_back(connection)

    def invoke_all(self, commands: Sequence[Command], timeout_s: float) -> list[Command]:
        with self._connection() as connection:
            return connection.invoke_all(commands, timeout_s)

    def oneway(self, command: Command, timeout_s: float) -> None:
        with self._connection() as connection:
            connection.oneway(command, timeout_s)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[BlockingConnection]:
        connection, mine = self._take()
        try:
            yield connection
        finally:
            if mine:
                self._give_back(connection)

    def _take(self) -> tuple[BlockingConnection, bool]:
        """A connection, and whether it is this thread's alone; deque's own operations need no lock."""
        if self._closed:
            raise _closed()
        try:
            return self._idle.pop()[0], True
        except IndexError:
            pass
        with self._lock:
            if self._closed:
                raise _closed()
            if len(self._all) < CONNECTIONS_MAX:
                connection = BlockingConnection(
                    self._address, sign=self._security.sign, tls=self._security.tls
                )
                self._all.append(connection)
                return connection, True
            return self._all[next(self._turn) % len(self._all)], False

    def _give_back(self, connection: BlockingConnection) -> None:
        now_s = time.monotonic()
        idle = self._idle
        idle.append((connection, now_s))
        if self._closed:  # meanwhile; the connection may have been made anew since
            connection.close()
        elif idle[0][1] < now_s - IDLE_S_MAX:
            self._close_oldest(now_s)

    def abandon(self) -> None:
        self._closed = True
        for connection in self._all:
            connection.abandon()

    def _close_oldest(self, now_s: float) -> None:
        with self._lock:
            try:
                connection, used_s = self._idle.popleft()
            except IndexError:
                return
            if used_s >= now_s - IDLE_S_MAX:
                self._idle.appendleft((connection, used_s))
                return
            self._all.remove(connection)
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections = list(self._all)
            self._all.clear()
        for connection in connections:
            connection.close()
