"""Figures of the process itself (memory, time, descriptors, collections), as every Python program tells them."""

from collections.abc import Callable


def process_figures() -> Callable[[], str]:
    """Makes that part of a page; prometheus-client knows how."""
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
    from prometheus_client.exposition import generate_latest

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry).decode()
