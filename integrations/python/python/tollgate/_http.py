"""What the two kinds of middleware have in common: the decision, and the fields and bodies of responses.

The fields are those of tollgate-http: `RateLimit-Policy` and `RateLimit` follow
draft-ietf-httpapi-ratelimit-headers-11, and a denial is a problem of RFC 9457.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from typing import Any

from tollgate._tollgate import Limiter
from tollgate.keys import KeyMalformed, KeyUnavailable, Request, peer_ip

#: Status, fields and body.
Denial = tuple[int, list[tuple[str, str]], bytes]

_INTEGER_MAX = 999_999_999_999_999
_NAME_MAX = 64
_PROBLEM = "https://iana.org/assignments/http-problem-types#quota-exceeded"
_TITLE = "Request cannot be satisfied as assigned quota has been exceeded"


class Answer:
    """A limit's answer to a request."""

    __slots__ = ("denial", "policy", "limit", "secs")

    def __init__(
        self, denial: Denial | None = None, policy: str | None = None, limit: str = "", secs: int | None = None
    ) -> None:
        #: The response, if the request is denied.
        self.denial = denial
        #: The item of `RateLimit-Policy`; `None` if the limit was not asked.
        self.policy = policy
        #: The item of `RateLimit`, without `t`.
        self.limit = limit
        #: `t`, or `None`.
        self.secs = secs

    def fields(self, retry_after: str | None) -> list[tuple[str, str]]:
        """The fields to add to a response that has this `Retry-After`, or `None`."""
        if self.policy is None:
            return []
        # Python reads no number of more than 4,300 digits. One of 20 is never the earlier.
        number = retry_after or ""
        is_later = number.isdecimal() and len(number) < 20 and int(number) < (self.secs or 0)
        time = "" if self.secs is None or is_later else f";t={self.secs}"
        return [("ratelimit-policy", self.policy), ("ratelimit", self.limit + time)]


def _body(status: int, kind: str, title: str, **members: Any) -> bytes:
    body = json.dumps({"type": kind, "title": title, "status": status, **members}, separators=(",", ":"))
    return body.encode()


def _denial(status: int, body: bytes, retry_after_secs: int | None = None) -> Denial:
    fields = [("content-type", "application/problem+json"), ("content-length", str(len(body)))]
    if retry_after_secs is not None:
        fields.append(("retry-after", str(retry_after_secs)))
    return status, fields, body


class Policy:
    """A limit with a name, a key and a cost."""

    def __init__(
        self,
        limiter: Limiter,
        *,
        key: Callable[[Request], str | bytes | None] = peer_ip,
        cost: int | Callable[[Request], int] = 1,
        name: str = "default",
        on_no_key: str = "deny",
    ) -> None:
        is_printable = all(" " <= character <= "~" for character in name)
        if not (1 <= len(name) <= _NAME_MAX and is_printable):
            raise ValueError(f"the name {name!r} is not 1 to {_NAME_MAX} printable ASCII characters")
        if on_no_key not in ("deny", "admit"):
            raise ValueError(f'on_no_key is "deny" or "admit", not {on_no_key!r}')
        self.limiter = limiter
        self._key = key
        self._cost: Callable[[Request], int] = cost if callable(cost) else lambda _: cost
        self._name = name
        self._admits_no_key = on_no_key == "admit"
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        self._quoted = f'"{escaped}"'
        window = f";w={int(limiter.period)}" if limiter.period >= 1 and limiter.period.is_integer() else ""
        self._item = f"{self._quoted};q={min(limiter.limit, _INTEGER_MAX)}{window}"

    def ask(self, request: Request) -> Answer:
        try:
            key = self._key(request)
        except KeyUnavailable as error:
            return self._without_key(500, str(error))
        except KeyMalformed as error:
            return self._no_key(400, str(error))
        if key is None:
            return self._without_key(400, "the request has no key for the rate limit")
        decision = self.limiter.check(key, self._cost(request))
        limit = f"{self._quoted};r={min(decision.remaining, _INTEGER_MAX)}"
        if decision:
            return Answer(None, self._item, limit, ceil(decision.reset_after))
        wait = decision.retry_after
        secs = None if wait is None else max(1, ceil(wait))
        body = _body(429, _PROBLEM, _TITLE, **{"violated-policies": [self._name]})
        return Answer(_denial(429, body, secs), self._item, limit, secs)

    def _without_key(self, status: int, detail: str) -> Answer:
        return Answer() if self._admits_no_key else self._no_key(status, detail)

    def _no_key(self, status: int, detail: str) -> Answer:
        # RFC 9457: the title of "about:blank" is the status phrase.
        body = _body(status, "about:blank", HTTPStatus(status).phrase, detail=detail)
        return Answer(_denial(status, body))
