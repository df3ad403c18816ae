"""Who may look at a job's page: whoever has its key; on the loopback interface everybody."""

import hashlib
import hmac
import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_COOKIE, _PARAMETER = "muster_page", "key"


def page_key(secret: bytes | None) -> str:
    """Return the key of a job's page: it follows from the job's secret, and does not give it away.

    Args:
        secret: The secret; None for a key that follows from nothing.
    """
    if secret is None:
        return secrets.token_hex(16)
    return hmac.new(secret, b"muster page", hashlib.sha256).hexdigest()[:32]


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine reach a host that is listened at."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Lets requests through to an application, or refuses them.

    With a key, a request has to bring it: as ``?key=``, which a browser then keeps in a cookie, or in the
    header ``Authorization: Bearer``. Without one, the request's ``Host`` has to be this machine: a page of
    somebody else's, whose name leads here, must not read this one.

    Args:
        application: What answers.
        key: The key; empty where everybody may look.
    """

    def __init__(self, application: ASGIApp, key: str) -> None:
        self._application = application
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an ASGI application."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._key:
            if is_loopback(_name_of(headers.get("host", ""))):
                await self._application(scope, receive, send)
            else:
                text = f"This page is for this machine alone, and not for {headers.get('host')!r}."
                await PlainTextResponse(f"{text} Open it at localhost.\n", 403)(scope, receive, send)
            return
        asked = parse_qsl(scope["query_string"].decode("latin-1"))
        if self._is_key(dict(asked).get(_PARAMETER, "")):
            left = urlencode([each for each in asked if each[0] != _PARAMETER])
            here = "/" + scope["path"].lstrip("/")  # and nowhere else, as //host would be
            answer = RedirectResponse(here + (f"?{left}" if left else ""), 303)
            answer.set_cookie(_COOKIE, self._key, httponly=True, samesite="strict")
            await answer(scope, receive, send)
        elif self._is_key(_cookie(headers)) or self._is_key(_bearer(headers)):
            await self._application(scope, receive, send)
        else:
            text = "The key of this job is missing. Open the address that muster has printed, with its ?key="
            await PlainTextResponse(f"{text}\n", 401)(scope, receive, send)

    def _is_key(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._key.encode())


def _name_of(host: str) -> str:
    """Return the name in a ``Host``, which may have a port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _cookie(headers: dict[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _bearer(headers: dict[str, str]) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""
