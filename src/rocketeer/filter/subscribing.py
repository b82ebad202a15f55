"""What a consumer writes to say which messages it wants, tags or SQL92, as a subscription."""

import re

from rocketeer.errors import ConfigError
from rocketeer.filter.sql import sql_subscription
from rocketeer.filter.tags import tag_subscription
from rocketeer.model.subscription import SUB_ALL, BadTagExpression, Subscription


def subscription_of(topic: str, tags: str | None = SUB_ALL, sql: str | None = None) -> Subscription:
    """By tags, or by an SQL92 expression; not both, because a broker takes one. TAGS is a property in SQL92."""
    if sql is None:
        _check_separators(tags)
        return tag_subscription(topic, tags)
    if tags not in (None, "", SUB_ALL):
        raise ConfigError(
            f"topic {topic!r} is subscribed with tags={tags!r} and sql={sql!r}: put the tags into the expression, "
            "for example TAGS IN ('a', 'b') AND ..."
        )
    return sql_subscription(topic, sql)


def _check_separators(tags: str | None) -> None:
    """Raise BadTagExpression for tags separated by anything but `||`: `a,b` would be one tag."""
    if tags is not None and not isinstance(tags, str):
        raise BadTagExpression(f"tags is {tags!r:.80}: it is one text, as in 'a || b'")
    for part in (tags or "").split("||"):
        if any(separator in part for separator in ",;|"):
            wanted = " || ".join(each for each in re.split(r"[,;|\s]+", tags or "") if each)
            raise BadTagExpression(f"tags {tags!r}: several tags are separated with ||, as in {wanted!r}")
