"""How a plan becomes a method: `Blocking` runs it in the calling thread, `Awaited` gives something to await.

    class Admin:
        topics = Blocking(plans.topics)          # admin.topics(cluster="DefaultCluster") -> tuple[str, ...]

The plan's own signature, without its first argument, is the method's; so is its text. Type checkers see both.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args, overload

from rocketeer.admin.context import AdminContext
from rocketeer.client.plans.effects import Plan

P = ParamSpec("P")
T = TypeVar("T")
X = TypeVar("X")


class BlockingHost(Protocol):
    """What holds Blocking methods."""

    def context(self) -> AdminContext: ...

    def run(self, plan: Plan[X]) -> X: ...


class AwaitedHost(Protocol):
    """What holds Awaited methods."""

    def context(self) -> AdminContext: ...

    async def run(self, plan: Plan[X]) -> X: ...


class _Method(Generic[P, T]):
    def __init__(self, plan: Callable[Concatenate[AdminContext, P], Plan[T]]) -> None:
        self.plan = plan
        self.__doc__ = plan.__doc__
        self.__name__ = plan.__name__
        whole = inspect.signature(plan)
        # A plan is a generator; what it returns is what the method brings.
        brings = get_args(whole.return_annotation)[-1]
        parameters = list(whole.parameters.values())[1:]
        self.__signature__ = whole.replace(parameters=parameters, return_annotation=brings)

    def _with_plan_text(self, call: Callable[P, X]) -> Callable[P, X]:
        """With the plan's text and, for help(), its options."""
        call.__doc__ = self.__doc__
        call.__name__ = self.__name__
        call.__signature__ = self.__signature__  # type: ignore[attr-defined]
        return call


class Blocking(_Method[P, T]):
    """A plan as a method that returns its result."""

    def __call__(self, host: BlockingHost, *args: P.args, **kwargs: P.kwargs) -> T:
        return host.run(self.plan(host.context(), *args, **kwargs))

    @overload
    def __get__(self, host: None, owner: Any) -> "Blocking[P, T]": ...
    @overload
    def __get__(self, host: BlockingHost, owner: Any) -> Callable[P, T]: ...
    def __get__(self, host: BlockingHost | None, owner: Any) -> "Blocking[P, T] | Callable[P, T]":
        if host is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return self(host, *args, **kwargs)

        return self._with_plan_text(call)


class Awaited(_Method[P, T]):
    """A plan as a method to await."""

    async def __call__(self, host: AwaitedHost, *args: P.args, **kwargs: P.kwargs) -> T:
        return await host.run(self.plan(host.context(), *args, **kwargs))

    @overload
    def __get__(self, host: None, owner: Any) -> "Awaited[P, T]": ...
    @overload
    def __get__(self, host: AwaitedHost, owner: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, host: AwaitedHost | None, owner: Any) -> "Awaited[P, T] | Callable[P, Awaitable[T]]":
        if host is None:
            return self

        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self(host, *args, **kwargs)

        return self._with_plan_text(call)
