"""A tag matcher lets through what the subscription asks for, and never too little."""

from rocketeer.filter.tags import tag_matcher, tag_subscription
from rocketeer.model.subscription import Subscription
from rocketeer.record.java_hash import java_hash


def test_everything_needs_no_matcher() -> None:
    assert tag_matcher(tag_subscription("T")) is None
    assert tag_matcher(tag_subscription("T", "")) is None
    assert tag_matcher(tag_subscription("T", None)) is None
    assert tag_subscription("T", None).expression == "*"


def test_only_the_tags_asked_for_match() -> None:
    matches = tag_matcher(tag_subscription("T", "a || 中文"))
    assert matches is not None
    assert matches(java_hash("a"))
    assert matches(java_hash("中文"))
    assert not matches(java_hash("b"))
    assert not matches(0)


def test_an_expression_of_blanks_matches_nothing() -> None:
    matches = tag_matcher(tag_subscription("T", " || "))
    assert matches is not None
    assert not matches(0)


def test_sql_and_class_filters_are_not_decided_by_tag() -> None:
    assert tag_matcher(Subscription("T", "a > 1", kind="SQL92")) is None
    assert tag_matcher(Subscription("T", "x", class_filter=True)) is None


def test_the_smallest_hash_is_a_hash_and_anything_below_an_address_that_passes() -> None:
    matches = tag_matcher(tag_subscription("T", "a"))
    assert matches is not None
    assert not matches(java_hash("polygenelubricants"))  # -2^31
    assert matches(-(1 << 63) + 40)
