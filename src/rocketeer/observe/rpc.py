"""How long requests took, by code: a part of both servers' pages."""

from rocketeer.observe.counters import RPC_BUCKETS_MS, UNKNOWN_CODE, Counters
from rocketeer.observe.exposition import MetricsPage
from rocketeer.observe.families import RPC_LATENCY
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.steps import Steps


def add_rpc(page: MetricsPage, counters: Counters) -> Steps[None]:
    for (request, response, held), times in list(counters.rpc.items()):
        labels = page.labels(
            protocol_type="remoting",
            request_code=_name(RequestCode, request),
            response_code=_name(ResponseCode, response),
            is_long_polling="true" if held else "false",
            result="success",
        )
        page.histogram(RPC_LATENCY, RPC_BUCKETS_MS, times.counts, round(times.sum, 3), labels)
        yield


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    if code == UNKNOWN_CODE:
        return "unknown"
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(code)
