"""The pages, a module for each subject; `all_pages` is the list of what the console can do."""

from rocketeer.console.pages import cluster, dashboard, groups, messages, topics
from rocketeer.console.registry import Registry


def all_pages() -> Registry:
    registry = Registry()
    for module in (dashboard, cluster, topics, groups, messages):
        registry.views.extend(module.VIEWS)
        registry.actions.extend(module.ACTIONS)
    return registry
