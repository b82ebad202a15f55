"""How a plan becomes a method: `PlanMethod` runs it as its owner runs plans, in the calling thread or to await.

    class AdminBase:
        topics = PlanMethod(plans.topics)        # admin.topics(cluster="DefaultCluster") -> tuple[str, ...]

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
    """An owner whose methods return their results."""

    def context(self) -> AdminContext: ...

    def run(self, plan: Plan[X]) -> X: ...


class AwaitedHost(Protocol):
    """An owner whose methods are awaited."""

    def context(self) -> AdminContext: ...

    async def run(self, plan: Plan[X]) -> X: ...


class PlanMethod(Generic[P, T]):
    """A plan as a method of both kinds of owners."""

    def __init__(self, plan: Callable[Concatenate[AdminContext, P], Plan[T]]) -> None:
        self.plan = plan
        self.__doc__ = plan.__doc__
        self.__name__ = plan.__name__
        whole = inspect.signature(plan)
        # A plan is a generator; what it returns is what the method brings.
        brings = get_args(whole.return_annotation)[-1]
        parameters = list(whole.parameters.values())[1:]
        self.__signature__ = whole.replace(parameters=parameters, return_annotation=brings)

    def __call__(self, host: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.__get__(host, type(host))(*args, **kwargs)

    @overload
    def __get__(self, host: None, owner: Any) -> "PlanMethod[P, T]": ...
    @overload
    def __get__(self, host: BlockingHost, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, host: AwaitedHost, owner: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, host: Any, owner: Any) -> Any:
        if host is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return host.run(self.plan(host.context(), *args, **kwargs))

        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            return await host.run(self.plan(host.context(), *args, **kwargs))

        method: Any = call_async if inspect.iscoroutinefunction(host.run) else call
        method.__doc__ = self.__doc__
        method.__name__ = self.__name__
        method.__signature__ = self.__signature__
        return method
