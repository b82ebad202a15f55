"""Several brokers, queues or groups asked side by side: what was answered, and who did not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rocketeer.console.i18n import TranslatableText, text
from rocketeer.errors import RocketeerError

W = TypeVar("W")
A = TypeVar("A")


async def outcomes(whom: Sequence[W], ask: Callable[[W], Awaitable[A]]) -> list[tuple[W, A | RocketeerError]]:
    """All of them in their order, each with its answer or with why there is none."""

    async def one(each: W) -> A | RocketeerError:
        try:
            return await ask(each)
        except RocketeerError as error:
            return error

    return list(zip(whom, await asyncio.gather(*map(one, whom)), strict=True))


async def ask_each(
    whom: Sequence[W], ask: Callable[[W], Awaitable[A]], *, name: Callable[[W], object] = lambda each: each
) -> tuple[list[tuple[W, A]], list[TranslatableText]]:
    """Ask each; returns those that answered, with their answers, and a sentence for each that did not."""
    answers: list[tuple[W, A]] = []
    failures: list[TranslatableText] = []
    for each, outcome in await outcomes(whom, ask):
        if isinstance(outcome, RocketeerError):
            failures.append(text("{who} did not answer: {error}", who=name(each), error=outcome))
        else:
            answers.append((each, outcome))
    return answers, failures
