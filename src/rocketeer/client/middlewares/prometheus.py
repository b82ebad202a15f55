"""Figures for Prometheus: `pip install 'rocketeer[prometheus]'`."""

import time
from typing import Any

from rocketeer.client.core.middleware import Consuming, Context, Middleware, PublishContext, Publishing
from rocketeer.extras import needed


class Prometheus(Middleware):
    """Counts and times what is consumed and sent, in `registry` (prometheus_client's own unless given).

    PREFIX_consumed_total{topic, group, outcome}    outcome: success, retry, error
    PREFIX_consume_seconds{topic, group}            a histogram
    PREFIX_consuming{topic, group}                  calls of listeners under way
    PREFIX_published_total{topic, outcome}          outcome: success, error
    PREFIX_publish_seconds{topic}                   a histogram

    `prometheus_client.start_http_server(9000)`, or your web framework, serves them. One for a registry: give the same
    one to apps and producers.
    """

    def __init__(self, registry: Any = None, *, prefix: str = "rocketeer_app") -> None:
        client = needed("prometheus_client", "the middleware Prometheus", "prometheus")
        where = {"registry": client.REGISTRY if registry is None else registry}
        by_group = ("topic", "group")
        self._consumed = client.Counter(
            f"{prefix}_consumed", "Messages given to listeners", (*by_group, "outcome"), **where
        )
        self._consume_s = client.Histogram(
            f"{prefix}_consume_seconds", "Calls of listeners", by_group, **where
        )
        self._consuming = client.Gauge(
            f"{prefix}_consuming", "Calls of listeners under way", by_group, **where
        )
        self._published = client.Counter(
            f"{prefix}_published", "Messages sent", ("topic", "outcome"), **where
        )
        self._publish_s = client.Histogram(f"{prefix}_publish_seconds", "Sends", ("topic",), **where)

    def consume(self, context: Context) -> Consuming:
        labels = (context.topic, context.group)
        under_way = self._consuming.labels(*labels)
        how = "error"
        under_way.inc()
        began_s = time.monotonic()
        try:
            outcome = yield
            how = "success" if outcome is None else "retry"
            return outcome
        finally:
            under_way.dec()
            self._consume_s.labels(*labels).observe(time.monotonic() - began_s)
            self._consumed.labels(*labels, how).inc(len(context.messages))

    def publish(self, context: PublishContext) -> Publishing:
        topic = context.message.topic
        how = "error"
        began_s = time.monotonic()
        try:
            result = yield
            how = "success"
            return result
        finally:
            self._publish_s.labels(topic).observe(time.monotonic() - began_s)
            self._published.labels(topic, how).inc(len(context.messages))
