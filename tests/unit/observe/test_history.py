"""Laws of figures over time: sums and rates are those of the span that ends now."""

from rocketeer.observe.history import SAMPLE_S, Figure, History
from rocketeer.observe.rates import Rates
from rocketeer.steps import finish


def grown(history: History[str], key: str, per_s: int, until_s: int, start_s: int = 0) -> int:
    """Sample a count that grows evenly; what it is at the end."""
    for now_s in range(start_s, until_s + 1, int(SAMPLE_S)):
        finish(history.sample({key: per_s * now_s}, float(now_s)))
    return per_s * until_s


def test_before_the_first_sample_all_of_it_was_just_now() -> None:
    history = History[str](0.0)
    assert history.figures("a", 30, 10.0).minute == Figure(30, 3.0)
    assert history.figures("a", 30, 0.0).minute == Figure(30, 30.0), "no rate over less than a second"


def test_an_even_count_has_its_rate_over_every_span() -> None:
    history = History[str](0.0)
    now = grown(history, "a", 5, 7_200)
    figures = history.figures("a", now, 7_200.0)
    assert figures.minute == Figure(5 * 60, 5.0)
    assert figures.hour == Figure(5 * 3_600, 5.0)
    assert figures.day == Figure(now, 5.0), "since the start, a day is not over yet"


def test_what_is_older_than_the_span_does_not_count() -> None:
    history = History[str](0.0)
    for step in range(20):
        finish(history.sample({"a": 100}, step * SAMPLE_S))
    assert history.figures("a", 103, 19 * SAMPLE_S + 5).minute.sum == 3
    assert history.figures("a", 103, 19 * SAMPLE_S + 5).hour.sum == 103


def test_a_count_that_is_gone_leaves_no_past_to_its_successor() -> None:
    history = History[str](0.0)
    for step in range(10):
        finish(history.sample({"a": 1000, "b": 1}, step * SAMPLE_S))
    finish(history.sample({"b": 1}, 10 * SAMPLE_S))
    assert len(history) == 1
    finish(history.sample({"b": 1, "c": 7}, 11 * SAMPLE_S))
    assert history.figures("c", 7, 11 * SAMPLE_S).minute.sum == 7
    assert history.figures("b", 1, 11 * SAMPLE_S).minute.sum == 0


def test_thousands_of_counts_keep_apart() -> None:
    history = History[int](0.0)
    for step in range(8):
        finish(history.sample({key: key * step for key in range(5_000)}, step * SAMPLE_S))
    for key in (0, 1, 63, 64, 65, 4_999):
        assert history.figures(key, key * 7, 70.0).minute.sum == key * 6


def test_rates_over_ten_sixty_and_six_hundred_seconds() -> None:
    rates = Rates(("put", "got"))
    assert rates.over("put", 10) is None
    for second in range(700):
        rates.sample(float(second), (second * 3, max(0, second - 650)))
    assert [rates.over("put", span) for span in (10, 60, 600)] == [3.0, 3.0, 3.0]
    assert rates.over("got", 10) == 1.0
    assert rates.over("got", 60) == 49 / 60
    assert rates.text("put") == "3.0 3.0 3.0"


def test_a_rate_that_cannot_be_known_yet_is_not_told() -> None:
    rates = Rates(("put",))
    for second in range(15):
        rates.sample(float(second), (second,))
    assert rates.text("put") == "1.0  "
    assert rates.over("put", 60) is None


def test_what_is_kept_from_the_first_question_on_counts_from_then_on() -> None:
    history = History[str](0.0)
    for step in range(100):
        finish(history.sample({"other": 1} if step else {}, step * SAMPLE_S))
    now_s = 99 * SAMPLE_S + 1
    history.watch("a", 500)
    assert history.figures("a", 500, now_s).minute == Figure(0, 0.0), "how it came to be 500 is not known"
    assert history.figures("a", 500, now_s).day.sum == 500, "but all of it today"
    finish(history.sample({"a": 500, "other": 1}, now_s + SAMPLE_S))
    assert history.figures("a", 530, now_s + 2 * SAMPLE_S).minute.sum == 30
