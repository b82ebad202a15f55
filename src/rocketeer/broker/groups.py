"""The consumer groups' settings: config/subscriptionGroup.json in memory, looked up by every pull."""

import logging
from collections.abc import Callable, Mapping

from rocketeer.broker.entries_table import EntriesTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup, is_system_group, is_usable_group
from rocketeer.protocol.bodies.groups import GROUP_ENTRIES, decode_group_table
from rocketeer.protocol.bodies.wire import encode_entry
from rocketeer.remoting.limits import busy_limit
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

FOLLOWED_AT_ONCE = 256

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)


class ConsumerGroupTable(EntriesTable):
    """Every group this broker knows; whether an unknown one appears by itself is a setting."""

    file_name = "subscriptionGroup.json"

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        super().__init__(clock, GROUP_ENTRIES)
        self._auto_create = config.auto_create_group_enable
        self.configs: dict[str, SubscriptionGroup] = {name: SubscriptionGroup(name) for name in SYSTEM_GROUPS}
        self._entries = {name: encode_entry(group) for name, group in self.configs.items()}
        self._groups_max = config.limits.groups
        self.on_change: list[Callable[[str], None]] = []

    def set_auto_create(self, allowed: bool) -> None:
        """Whether unknown groups appear by themselves from now on."""
        self._auto_create = allowed

    def get(self, name: str) -> SubscriptionGroup | None:
        return self.configs.get(name)

    def get_or_create(self, name: str) -> SubscriptionGroup | None:
        """The group's settings; None for an unknown group that may not appear by itself.

        RequestRefused when there are as many groups as may be.
        """
        known = self.configs.get(name)
        if known is not None:
            return known
        if not self._auto_create and not is_system_group(name):
            return None
        if not is_usable_group(name):
            log.warning("group not created group=%.200r", name)
            return None
        if len(self.configs) >= self._groups_max:
            raise busy_limit("groups of this broker", "limitGroups", self._groups_max)
        created = SubscriptionGroup(name)
        log.info("group created group=%s", name)
        self.put(created)
        return created

    def put(self, group: SubscriptionGroup) -> None:
        """Create or replace a group."""
        self.configs[group.name] = group
        self._entries[group.name] = encode_entry(group)
        self._changed(group.name)

    def delete(self, name: str) -> SubscriptionGroup | None:
        group = self.configs.pop(name, None)
        if group is not None:
            del self._entries[name]
            self._changed(name)
        return group

    def following(self, groups: Mapping[str, SubscriptionGroup], version: DataVersion) -> Steps[None]:
        """Become the master's table, a changed group a step; what every broker has by itself stays."""
        if version == self.version:
            return
        for number, name in enumerate(list(self.configs), 1):
            if name not in groups and name not in SYSTEM_GROUPS and self.configs.pop(name, None) is not None:
                del self._entries[name]
                self._dirty = True
            if number % FOLLOWED_AT_ONCE == 0:
                yield
        for number, (name, group) in enumerate(groups.items(), 1):
            if self.configs.get(name) != group:
                self.configs[name] = group
                self._entries[name] = encode_entry(group)
                self._dirty = True
                yield
            elif number % FOLLOWED_AT_ONCE == 0:
                yield
        self.version = version
        self._dirty = True

    def _changed(self, name: str) -> None:
        self._note_change()
        for told in self.on_change:
            told(name)

    # --- the file ----------------------------------------------------------------------------

    def decode(self, text: str) -> None:
        """Lay the file over the system groups."""
        groups, self.version = decode_group_table(text.encode())
        self.configs.update(groups)
        self._entries.update((name, encode_entry(group)) for name, group in groups.items())
