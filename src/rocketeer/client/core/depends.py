"""What a listener asks for beside the message: `Context`, `ReceivedMessage`, and values of functions (`Depends`).

    def session():                                  # may ask for things itself; `async def` for coroutine listeners
        with Session() as opened:
            yield opened                            # with `yield`: what follows happens after the listener

    @app.listener("orders", group="billing")
    def bill(order: Order, db: Annotated[Session, Depends(session)], context: Context): ...

The first parameter is the message or what its body decodes to (`codecs`); this module is about the others. Values are
made for each message, each function's once (`use_cache=False`: once for each who asks).
"""

import contextlib
import inspect
import sys
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, overload

from rocketeer.client.core.middleware import Context
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import ConfigError

T = TypeVar("T")
Cache: TypeAlias = dict[Callable[..., Any], Any]
Overrides: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Dependency:
    """What `Depends` returns."""

    function: Callable[..., Any]
    use_cache: bool = True


# For type checkers the parameter has the type of what the function yields, brings or returns.
@overload
def Depends(function: Callable[..., Iterator[T]], *, use_cache: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., AsyncIterator[T]], *, use_cache: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., Awaitable[T]], *, use_cache: bool = True) -> T: ...
@overload
def Depends(function: Callable[..., T], *, use_cache: bool = True) -> T: ...
def Depends(function: Callable[..., Any], *, use_cache: bool = True) -> Any:
    """The parameter's value is what the function returns or yields, called for every message.

    Write it as a default, `db: Session = Depends(session)`, or as `db: Annotated[Session, Depends(session)]`.
    """
    if not callable(function):
        raise ConfigError(f"Depends({function!r:.80}): it takes a function")
    return Dependency(function, use_cache)


@dataclass(frozen=True, slots=True)
class DependencyNode:
    """A function whose parameters are known: by name what each is filled with."""

    function: Callable[..., Any]
    is_async: bool
    yields: bool
    use_cache: bool
    needs: tuple[tuple[str, "ParameterSource"], ...]


ParameterSource: TypeAlias = DependencyNode | type[Context] | type[ReceivedMessage]


def needs_of(
    function: Callable[..., Any], *, skip: int, is_async: bool, overrides: Overrides
) -> tuple[tuple[str, ParameterSource], ...]:
    """What the parameters behind the first `skip` ones are filled with; those with another default are left alone.

    Raises ConfigError for one that nothing is known of, and for an asynchronous one of a plain function.
    """
    return _needs(function, skip, is_async, overrides, ())


def _needs(
    function: Callable[..., Any], skip: int, is_async: bool, overrides: Overrides, path: tuple[Any, ...]
) -> tuple[tuple[str, ParameterSource], ...]:
    found: list[tuple[str, ParameterSource]] = []
    for parameter in list(parameters_of(function))[skip:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        need = _need(function, parameter, is_async, overrides, path)
        if need is not None:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ConfigError(
                    f"{name_of(function)}: {parameter.name} is given by its name, and `/` forbids that"
                )
            found.append((parameter.name, need))
    return tuple(found)


def _need(
    function: Callable[..., Any],
    parameter: inspect.Parameter,
    is_async: bool,
    overrides: Overrides,
    path: tuple[Any, ...],
) -> ParameterSource | None:
    kind = annotation_of(function, parameter)
    marks = [
        each
        for each in (parameter.default, *getattr(kind, "__metadata__", ()))
        if isinstance(each, Dependency)
    ]
    if marks:
        return _node(marks[0], is_async, overrides, (*path, function))
    plain = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    if plain in (Context, ReceivedMessage):
        return typing.cast(ParameterSource, plain)
    if parameter.default is not parameter.empty:
        return None
    raise ConfigError(
        f"{name_of(function)} asks for {parameter.name!r}, and nothing says what that is: annotate it with "
        "ReceivedMessage or Context, or write Depends(function)"
    )


def _node(mark: Dependency, is_async: bool, overrides: Overrides, path: tuple[Any, ...]) -> DependencyNode:
    function = overrides.get(mark.function, mark.function)
    if function in path:
        raise ConfigError(f"{name_of(function)} depends on itself")
    asks = is_coroutine_function(function)
    async_yields = inspect.isasyncgenfunction(function)
    if (asks or async_yields) and not is_async:
        raise ConfigError(
            f"{name_of(path[0])} is a plain function and depends on {name_of(function)}, which is asynchronous: "
            "write the listener `async def`"
        )
    needs = _needs(function, 0, is_async, overrides, path)
    return DependencyNode(
        function,
        asks or async_yields,
        inspect.isgeneratorfunction(function) or async_yields,
        mark.use_cache,
        needs,
    )


# --- filling ---------------------------------------------------------------------------------


def call_with(
    function: Callable[..., Any], first: Any, needs: Iterable[tuple[str, ParameterSource]], context: Context
) -> Any:
    """Call the listener with what it asks for, in this thread."""
    failed: BaseException | None = None
    returned: Any = None
    with contextlib.ExitStack() as stack:
        values = _values(needs, context, {}, stack)
        try:
            returned = function(first, **values)
        except BaseException as error:
            failed = error
            raise
    if failed is not None:  # a dependency that swallows the error does not make the message consumed
        raise failed
    return returned


def _values(
    needs: Iterable[tuple[str, ParameterSource]], context: Context, cache: Cache, stack: contextlib.ExitStack
) -> dict[str, Any]:
    return {
        name: _value(need, context, cache, stack)
        if isinstance(need, DependencyNode)
        else _given(need, context)
        for name, need in needs
    }


def _value(node: DependencyNode, context: Context, cache: Cache, stack: contextlib.ExitStack) -> Any:
    if node.use_cache and node.function in cache:
        return cache[node.function]
    values = _values(node.needs, context, cache, stack)
    if node.yields:
        value = stack.enter_context(contextlib.contextmanager(node.function)(**values))
    else:
        value = node.function(**values)
    cache[node.function] = value
    return value


async def call_with_async(
    function: Callable[..., Any], first: Any, needs: Iterable[tuple[str, ParameterSource]], context: Context
) -> Any:
    """Await the listener with what it asks for."""
    failed: BaseException | None = None
    returned: Any = None
    async with contextlib.AsyncExitStack() as stack:
        values = await _values_async(needs, context, {}, stack)
        try:
            returned = await function(first, **values)
        except BaseException as error:
            failed = error
            raise
    if failed is not None:
        raise failed
    return returned


async def _values_async(
    needs: Iterable[tuple[str, ParameterSource]],
    context: Context,
    cache: Cache,
    stack: contextlib.AsyncExitStack,
) -> dict[str, Any]:
    return {
        name: await _value_async(need, context, cache, stack)
        if isinstance(need, DependencyNode)
        else _given(need, context)
        for name, need in needs
    }


async def _value_async(
    node: DependencyNode, context: Context, cache: Cache, stack: contextlib.AsyncExitStack
) -> Any:
    if node.use_cache and node.function in cache:
        return cache[node.function]
    values = await _values_async(node.needs, context, cache, stack)
    if node.yields and node.is_async:
        value = await stack.enter_async_context(contextlib.asynccontextmanager(node.function)(**values))
    elif node.yields:
        value = stack.enter_context(contextlib.contextmanager(node.function)(**values))
    else:
        value = node.function(**values)
        if node.is_async:
            value = await value
    cache[node.function] = value
    return value


def _given(need: ParameterSource, context: Context) -> Any:
    return context if need is Context else context.message


# --- signatures ------------------------------------------------------------------------------


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, also with annotations that only type checkers know; None for C functions without one."""
    try:
        if sys.version_info >= (3, 14):  # there annotations are not evaluated before somebody asks for them
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        else:
            return inspect.signature(function)
    except ValueError:
        return None


def parameters_of(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    """The function's parameters in their order; none where they are not known."""
    signature = signature_of(function)
    return () if signature is None else signature.parameters.values()


def annotation_of(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """What the parameter is annotated with, also as text; raises ConfigError if that is not known."""
    text = parameter.annotation
    if isinstance(text, typing.ForwardRef):
        text = text.__forward_arg__
    if not isinstance(text, str):
        return text
    for known in (ReceivedMessage, Context):  # often imported for type checkers only
        if text.rpartition(".")[2].rstrip("]") == known.__name__:
            return known
    called: Any = function if inspect.isroutine(function) else type(function).__call__
    called = inspect.unwrap(called)
    holder = typing.cast(Any, type("holder", (), {}))
    holder.__annotations__ = {parameter.name: text}
    try:
        return typing.get_type_hints(holder, getattr(called, "__globals__", {}), include_extras=True)[
            parameter.name
        ]
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ConfigError(
            f"{name_of(function)} asks for {text!r}, which is not known where it is defined: {error}"
        ) from None


def is_coroutine_function(function: object) -> bool:
    """Whether the function, or its `__call__`, is a coroutine function."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 the method itself is wanted
    )


def name_of(function: object) -> str:
    """The callable's name for error messages."""
    return str(getattr(function, "__qualname__", None) or repr(function))
