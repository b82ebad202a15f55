"""The life of a message as its producers and consumers reported it, drawn over time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, PageView, Param
from rocketeer.errors import NoRoute, RocketeerError
from rocketeer.model.topic import TRACE_TOPIC
from rocketeer.record.trace import TraceEvent, TraceKind

WIDTH: Final = 1000
ROW: Final = 26


async def trace(request: PageRequest) -> Mapping[str, Any]:
    identity = request.text("id")
    if not identity:
        return {"id": "", "events": [], "bars": [], "height": 0, "span_ms": 0, "failures": []}
    failures: list[object] = []
    try:
        found = await request.cluster.admin.message_trace(
            identity, trace_topic=request.text("trace_topic") or TRACE_TOPIC
        )
    except NoRoute:
        found = ()  # nobody has traced anything yet
    except RocketeerError as error:  # a broker that does not answer may be the one that knows
        found, failures = (), [error]
    events = sorted(found, key=lambda event: event.time_ms)
    first = min((began_ms(event) for event in events), default=0)
    last = max((began_ms(event) + max(event.cost_ms, 0) for event in events), default=0)
    span = max(last - first, 1)
    bars = [
        {
            "x": round((began_ms(event) - first) / span * WIDTH, 1),
            "y": at * ROW,
            "width": max(round(max(event.cost_ms, 0) / span * WIDTH, 1), 4),
            "event": event,
        }
        for at, event in enumerate(events)
    ]
    return {"id": identity, "events": events, "bars": bars, "height": len(bars) * ROW, "span_ms": span,
            "failures": failures}  # fmt: skip


def began_ms(event: TraceEvent) -> int:
    """What was consumed is told when it is done, everything else when it begins."""
    return event.time_ms - max(event.cost_ms, 0) if event.kind is TraceKind.SUB_AFTER else event.time_ms


VIEWS: Sequence[PageView] = (
    PageView("/trace", "trace", "The life of a message", trace, "trace.html", nav="Trace",
             query=(Param("id", "message id"), Param("trace_topic", "trace topic"))),
)  # fmt: skip
ACTIONS: Sequence[Action] = ()
