"""Runs plans on asyncio: each effect is awaited, its outcome sent or thrown back into the plan.

driver = AsyncDriver(remoting)
route = await driver.run(fetch_route(...))
"""

import asyncio
from collections.abc import Hashable, Sequence, Sized
from concurrent.futures import Executor
from typing import Any, Final, Protocol, TypeVar

from rocketeer.client.core import rpc_hooks
from rocketeer.client.core.rpc_hooks import RpcHook
from rocketeer.client.plans.effects import Call, CallAll, Effect, Oneway, Parallel, Plan, Shared, Sleep
from rocketeer.errors import RocketeerError
from rocketeer.protocol.command import Command
from rocketeer.remoting.client import RemotingClient

T = TypeVar("T")

ASIDE_BYTES: Final = 16 << 10
ASIDE_OUTCOMES: Final = 256


class PlanRunner(Protocol):
    """`AsyncDriver.run`, or what stands in for it."""

    async def __call__(self, plan: Plan[T]) -> T: ...


def _is_large(came: Any) -> bool:
    """Whether it may take milliseconds to read: a long answer, or those of many."""
    if isinstance(came, Command):
        return len(came.body) > ASIDE_BYTES
    return isinstance(came, list) and (
        len(came) > ASIDE_OUTCOMES
        or any(isinstance(each, Sized) and len(each) > ASIDE_OUTCOMES for each in came)
    )


def _sent(plan: Plan[Any], came: Any) -> tuple[Any, StopIteration | None]:
    """`plan.send`, for a thread: the end of a plan cannot be thrown out of one."""
    try:
        return plan.send(came), None
    except StopIteration as end:
        return None, end


class AsyncDriver:
    """Runs plans on asyncio; one per owner of connections, any number of plans at a time."""

    def __init__(
        self, remoting: RemotingClient, hooks: Sequence[RpcHook] = (), *, executor: Executor | None = None
    ) -> None:
        """`executor`: where plans go on with what is large, so that the loop is not held up."""
        self._executor = executor
        self._remoting = remoting
        self._hooks = tuple(hooks)
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, plan: Plan[T]) -> T:
        invoke = self._invoke if self._hooks else self._remoting.invoke
        try:
            effect = next(plan)
            while True:
                try:
                    if type(effect) is Call:  # nearly all of them
                        came: Any = await invoke(effect.address, effect.command, effect.timeout_s)
                    else:
                        came = await self._do(effect)
                except RocketeerError as error:
                    effect = plan.throw(error)
                else:
                    if self._executor is not None and _is_large(came):
                        loop = asyncio.get_running_loop()
                        effect, ended = await loop.run_in_executor(self._executor, _sent, plan, came)
                        if ended is not None:
                            raise ended
                    else:
                        effect = plan.send(came)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _do(self, effect: Effect) -> Any:
        match effect:
            case Call(address, command, timeout_s):
                return await self._invoke(address, command, timeout_s)
            case CallAll(address, commands, timeout_s):
                calls = (self._invoke(address, command, timeout_s) for command in commands)
                return await asyncio.gather(*calls)
            case Oneway(address, command, timeout_s):
                await self._oneway(address, command, timeout_s)
            case Sleep(seconds):
                await asyncio.sleep(seconds)
            case Shared(key, plan):
                task = self._shared.get(key)
                if task is None:
                    task = self._shared[key] = asyncio.create_task(self.run(plan))
                    task.add_done_callback(lambda done: self._share_ended(key, done))
                # Shielded: one of those who wait may be cancelled, the others still want the outcome.
                return await asyncio.shield(task)
            case Parallel(plans, limit):
                return await self._run_parallel(plans, limit)
        return None

    async def _invoke(self, address: str, command: Command, timeout_s: float) -> Command:
        context = rpc_hooks.before(self._hooks, address, command)
        try:
            reply = await self._remoting.invoke(address, command, timeout_s)
        except RocketeerError as error:
            rpc_hooks.after(self._hooks, context, None, error)
            raise
        rpc_hooks.after(self._hooks, context, reply, None)
        return reply

    async def _oneway(self, address: str, command: Command, timeout_s: float) -> None:
        context = rpc_hooks.before(self._hooks, address, command, oneway=True)
        await self._remoting.oneway(address, command, timeout_s)
        rpc_hooks.after(self._hooks, context, None, None)

    async def _run_parallel(self, plans: Sequence[Plan[Any]], limit: int) -> list[Any]:
        outcomes: list[Any] = [None] * len(plans)
        numbered = iter(enumerate(plans))

        async def work() -> None:
            for number, plan in numbered:
                try:
                    outcomes[number] = await self.run(plan)
                except RocketeerError as error:
                    outcomes[number] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(plans))):
                group.create_task(work())
        return outcomes

    def _share_ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._shared.pop(key, None)
        if not task.cancelled():
            task.exception()  # asked for, so that asyncio does not complain when all who waited are gone
