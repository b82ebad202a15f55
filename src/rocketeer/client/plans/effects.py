"""What a plan may ask of its driver. A plan is a generator: it yields effects and is sent what they bring.

    def route_of(topic: str, nameserver: str) -> Plan[Route]:
        reply = yield Call(nameserver, route_request(topic), timeout_s=3)     # a Command
        return decode_route(reply.body)

A call that brings no reply raises inside the plan (ConnectFailed, CallTimeout, ConnectionLost), so a plan
retries with `try/except`. Plans never touch sockets, threads or clocks: a Clock is an argument. The same plan
runs in `aio.drivers.AsyncDriver`, in `sync.driver.BlockingDriver`, and in a test with scripted replies:

    plan = route_of("Orders", "a:9876")
    assert next(plan).address == "a:9876"
    try: plan.send(reply)
    except StopIteration as end: route = end.value
"""

from collections.abc import Generator, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from rocketeer.protocol.command import Command

T = TypeVar("T")


class Call(msgspec.Struct, gc=False):
    """Ask the address and wait for its reply; brings the reply, whatever its code."""

    address: str
    command: Command
    timeout_s: float


class CallAll(msgspec.Struct, gc=False):
    """Ask the address several things at once; brings the replies in the order of the commands."""

    address: str
    commands: list[Command]
    timeout_s: float


class Oneway(msgspec.Struct, gc=False):
    """Tell the address; nothing comes back."""

    address: str
    command: Command
    timeout_s: float = 3.0


class Sleep(msgspec.Struct, gc=False):
    """Wait this long, then go on with the plan."""

    seconds: float


class Shared(msgspec.Struct):
    """Run the plan once for everybody who asks with this key at this moment; all get its outcome.

    A thousand sends to a topic nobody has sent to yet fetch its route once. Whoever comes second has its own
    plan dropped unstarted.
    """

    key: Hashable
    plan: Generator[Any, Any, Any]


class Parallel(msgspec.Struct):
    """Run plans side by side, at most `limit` at a time.

    Brings for each plan, in their order, its result or the RocketeerError it ended with: one broker that is
    silent keeps no other answer back.
    """

    plans: Sequence[Generator[Any, Any, Any]]
    limit: int = 32


Effect: TypeAlias = Call | CallAll | Oneway | Sleep | Shared | Parallel
Plan: TypeAlias = Generator[Effect, Any, T]
