"""The API's description, made from the same declarations as its routes."""

import re
from typing import Any

from rocketeer import __version__
from rocketeer.console.registry import Download, PageRegistry, PageView, Param

_KINDS: dict[str, dict[str, Any]] = {
    "number": {"type": "integer"},
    "flag": {"type": "boolean"},
    "many": {"type": "array", "items": {"type": "string"}},
}


def openapi(registry: PageRegistry) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    pages: list[tuple[PageView | Download, str]] = [(view, "what the page shows") for view in registry.views]
    pages += [(download, "a file") for download in registry.downloads]
    for page, brings in pages:
        path = "/api/{cluster}" + page.path
        parameters = [_in_path(name) for name in re.findall(r"{(\w+)", path)]
        parameters += [_described(param) | {"in": "query"} for param in page.query]
        paths[_plain(path)] = {
            "get": {
                "operationId": page.name,
                "summary": page.summary,
                "parameters": parameters,
                "responses": {"200": {"description": brings}},
            }
        }
    for action in registry.actions:
        path = "/api/{cluster}" + action.path
        fields = {param.name: _schema(param) for param in action.fields}
        fields["dry_run"] = {"type": "boolean", "description": "only say what it would do"}
        paths.setdefault(_plain(path), {})["post"] = {
            "operationId": action.name,
            "summary": f"{action.summary} (needs the role {action.role.name.lower()})",
            "description": action.warning,
            "parameters": [_in_path(name) for name in re.findall(r"{(\w+)", path)],
            "requestBody": {
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": fields,
                            "required": [param.name for param in action.fields if param.required],
                        }
                    }
                }
            },
            "responses": {"200": {"description": "what was done, and what failed"}},
        }
    failed = {"description": "one sentence in `error`: the broker's own words where it refused"}
    for path in paths.values():
        for operation in path.values():
            operation["responses"]["default"] = failed
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rocketeer console", "version": __version__},
        "paths": paths,
    }


def _plain(path: str) -> str:
    return re.sub(r":\w+}", "}", path)


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _schema(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = dict(_KINDS.get(param.kind, {"type": "string"}))
    if param.choices:
        schema["enum"] = list(param.choices)
    return schema | {"description": param.label}


def _described(param: Param) -> dict[str, Any]:
    return {"name": param.name, "required": param.required, "schema": _schema(param)}
