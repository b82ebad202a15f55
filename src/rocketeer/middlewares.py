"""The middlewares that come with the clients: `App(middlewares=[Logging(), Prometheus()])`.

How to write one of your own: `rocketeer.Middleware`, and docs/apps.md.
"""

from rocketeer.client.middlewares.flow import ErrorHook, RateLimit, Timeout
from rocketeer.client.middlewares.logs import Logging, MessageFields
from rocketeer.client.middlewares.otel import OpenTelemetry
from rocketeer.client.middlewares.prometheus import Prometheus

__all__ = ["ErrorHook", "Logging", "MessageFields", "OpenTelemetry", "Prometheus", "RateLimit", "Timeout"]
