"""The pages, a module for each subject; `all_pages` is the list of what the console can do."""

from rocketeer.console.pages import (
    access,
    cluster,
    dashboard,
    dead_letters,
    groups,
    messages,
    operations,
    pipeline,
    producers,
    replicas,
    topics,
    trace,
    waiting,
)
from rocketeer.console.registry import PageRegistry


def all_pages() -> PageRegistry:
    registry = PageRegistry()
    for module in (
        dashboard,
        cluster,
        replicas,
        topics,
        groups,
        producers,
        messages,
        dead_letters,
        waiting,
        trace,
        access,
        operations,
        pipeline,
    ):
        registry.views.extend(module.VIEWS)
        registry.downloads.extend(getattr(module, "DOWNLOADS", ()))
        registry.actions.extend(module.ACTIONS)
    return registry
