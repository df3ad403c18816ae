"""Parse the URL of a request: the model, its version, and the verb.

Source: tensorflow_serving/model_servers/http_rest_api_util.cc and http_rest_api_handler.cc.
"""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from muster._errors import RequestError

_MODEL = r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(_MODEL + r":(?P<verb>classify|regress|predict)", re.IGNORECASE | re.ASCII)
_GET = re.compile(_MODEL + r"(?P<verb>/metadata)?", re.IGNORECASE | re.ASCII)

Verb = Literal["classify", "regress", "predict", "metadata", "status"]


@dataclass(frozen=True, kw_only=True)
class Route:
    """The parts of a request's URL.

    Attributes:
        model: The name of a model.
        version: The number of one of its versions; None for the one that is served.
        verb: What to do with it.
    """

    model: str
    version: int | None
    verb: Verb


def parse_route(method: str, path: str) -> Route:
    """Return what a request asks for.

    Args:
        method: ``"GET"`` or ``"POST"``.
        path: The path of the URL as it was sent, without a query.

    Raises:
        RequestError: It is nothing that there is: 404 for a path outside of ``/v1/``, else 400.
    """
    if not path.lower().startswith("/v1/"):
        raise RequestError(f"There is nothing at {path}: the API is below /v1/models/NAME.", status=404)
    pattern = {"GET": _GET, "POST": _POST}.get(method)
    found = pattern.fullmatch(path) if pattern else None
    if found is None:
        raise RequestError(
            f"Malformed request: {method} {path}. There are GET /v1/models/NAME[/versions/N][/metadata] and "
            "POST /v1/models/NAME[/versions/N]:predict, :classify or :regress."
        )
    if found["label"]:
        raise RequestError(
            f"There is no label {unquote(found['label'])!r}: versions have no labels here. Ask for "
            "/versions/N, or for neither, to get the newest."
        )
    verb: dict[str, Verb] = {"/metadata": "metadata", "": "status"}
    asked = (found["verb"] or "").lower()
    return Route(
        model=unquote(found["model"]),
        version=int(found["version"]) if found["version"] else None,
        verb=verb.get(asked, asked),  # type: ignore[arg-type]
    )
