"""Plans driven by hand: `from support.plans import Script`."""

from collections.abc import Callable
from typing import Any, TypeVar

from rocketeer.client.plans.effects import Call, Effect, Oneway, Plan, Shared, Sleep
from rocketeer.protocol.command import Command
from support.clock import ManualClock

T = TypeVar("T")
Answer = Command | Exception
Play = Callable[[Call], Answer]


class Script:
    """Runs a plan and answers its calls with what `play` says; keeps what was asked."""

    def __init__(self, play: Play | list[Answer], clock: ManualClock | None = None) -> None:
        self._clock = clock
        self._play = play if callable(play) else _in_order(list(play))
        self.effects: list[Effect] = []

    @property
    def addresses(self) -> list[str]:
        return [effect.address for effect in self.effects if isinstance(effect, Call | Oneway)]

    @property
    def commands(self) -> list[Command]:
        return [effect.command for effect in self.effects if isinstance(effect, Call | Oneway)]

    def run(self, plan: Plan[T]) -> T:
        try:
            effect = next(plan)
            while True:
                outcome = self._do(effect)
                effect = plan.throw(outcome) if isinstance(outcome, Exception) else plan.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def _do(self, effect: Effect) -> Any:
        if isinstance(effect, Shared):
            try:
                return self.run(effect.plan)
            except Exception as error:
                return error
        self.effects.append(effect)
        if isinstance(effect, Call):
            return self._play(effect)
        assert isinstance(effect, Oneway | Sleep)
        if isinstance(effect, Sleep) and self._clock is not None:
            self._clock.advance(ms=round(effect.seconds * 1000))
        return None


def _in_order(answers: list[Answer]) -> Play:
    return lambda call: answers.pop(0)
