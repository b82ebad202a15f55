"""Options that several commands of a command line share, declared once as a dataclass. Pure."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options as one argument each: `def send(where: Where, shape: Shape, ...)`.

    For typer every field that such a dataclass is made with is an option of its own.
    """
    kinds = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = kinds[name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name] = kind
        field_kinds = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field_kinds[field.name],
            )
            for field in _given(kind)
        ]

    @functools.wraps(command)
    def run(**options: Any) -> None:
        for name, kind in groups.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in _given(kind)})
        command(**options)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _given(kind: Any) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init]
