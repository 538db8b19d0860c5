import asyncio
import json
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient
from werkzeug.test import Client

from tollgate import Limiter, keys
from tollgate.asgi import RateLimitMiddleware as Asgi
from tollgate.wsgi import RateLimitMiddleware as Wsgi


def ask_wsgi(limiter, peer="192.0.2.7", headers=(), method="GET", own=(), **options):
    """Status, fields and body of a response; `own` are the fields of the application."""
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/x", "REMOTE_ADDR": peer}
    environ |= {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers}
    answer = {}

    def app(environ, start_response):
        start_response("200 OK", [("content-type", "text/plain"), *own])
        return [b"hello"]

    def start_response(status, fields, exc_info=None):
        answer.update(status=int(status.split()[0]), fields=dict(fields))

    body = b"".join(Wsgi(app, limiter, **options)(environ, start_response))
    return SimpleNamespace(**answer, body=body)


def ask_asgi(limiter, peer="192.0.2.7", headers=(), method="GET", own=(), **options):
    client = None if peer is None else (peer, 4711)
    scope = {"type": "http", "method": method, "path": "/x", "client": client,
             "headers": [(name.lower().encode(), value.encode()) for name, value in headers]}
    own = [(name.encode(), value.encode()) for name, value in own]
    answer = {"body": b""}

    async def app(scope, receive, send):
        headers = [(b"content-type", b"text/plain"), *own]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    async def send(message):
        if message["type"] == "http.response.start":
            fields = {name.decode(): value.decode() for name, value in message["headers"]}
            answer.update(status=message["status"], fields=fields)
        else:
            answer["body"] += message["body"]

    asyncio.run(Asgi(app, limiter, **options)(scope, None, send))
    return SimpleNamespace(**answer)


@pytest.fixture(params=[ask_wsgi, ask_asgi], ids=["wsgi", "asgi"])
def ask(request):
    return request.param


def test_a_denial_is_429_with_the_fields_of_tollgate_http(ask):
    limiter = Limiter("2/min")
    first, second, third = (ask(limiter, name="per-client") for _ in range(3))
    assert (first.status, first.body) == (200, b"hello")
    assert first.fields == {
        "content-type": "text/plain",
        "ratelimit-policy": '"per-client";q=2;w=60',
        "ratelimit": '"per-client";r=1;t=30',
    }
    assert second.fields["ratelimit"] == '"per-client";r=0;t=60'
    assert third.status == 429
    assert third.fields.pop("content-length") == str(len(third.body))
    assert third.fields == {
        "content-type": "application/problem+json",
        "retry-after": "30",
        "ratelimit-policy": '"per-client";q=2;w=60',
        "ratelimit": '"per-client";r=0;t=30',
    }
    assert json.loads(third.body) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "violated-policies": ["per-client"],
    }
    assert ask(limiter, peer="192.0.2.8").status == 200
    assert ask(limiter, method="HEAD").body == b""


def test_a_request_that_never_fits_has_no_retry_after(ask):
    response = ask(Limiter("2/min"), cost=3)
    assert response.status == 429 and "retry-after" not in response.fields
    assert response.fields["ratelimit"] == '"default";r=2'


def test_a_cost_may_depend_on_the_request(ask):
    limiter = Limiter("10/min")

    def cost(request):
        return 4 if (request.method, request.path) == ("POST", "/x") else 1

    response = ask(limiter, cost=cost, method="POST")
    assert response.fields["ratelimit"].startswith('"default";r=6;')


def test_a_period_that_is_no_whole_second_is_left_out_and_a_name_is_escaped(ask):
    fields = ask(Limiter("5 per 1500 ms"), name='a "b" \\c').fields
    assert fields["ratelimit-policy"] == r'"a \"b\" \\c";q=5'


def test_a_time_after_the_applications_retry_after_is_left_out(ask):
    later = ask(Limiter("2/min"), own=[("retry-after", "5")])
    assert later.fields["ratelimit"] == '"default";r=1'
    sooner = ask(Limiter("2/min"), own=[("retry-after", "40")])
    assert sooner.fields["ratelimit"] == '"default";r=1;t=30'


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": "ü"}, {"name": "x" * 65}, {"on_no_key": "maybe"}])
def test_a_wrong_option_is_an_error(ask, wrong):
    with pytest.raises(ValueError):
        ask(Limiter("1/s"), **wrong)


def test_ipv6_clients_are_limited_by_their_network(ask):
    limiter = Limiter("1/h")
    assert ask(limiter, peer="2001:db8:1:2:3::4").status == 200
    assert ask(limiter, peer="2001:db8:1:2:9::9").status == 429
    assert ask(limiter, peer="2001:db8:1:3::4").status == 200
    assert ask(limiter, peer="::ffff:192.0.2.7").status == 200
    assert ask(limiter, peer="192.0.2.7").status == 429


def test_a_peer_that_is_no_address_is_an_error_which_names_it(ask):
    unknown = ask(Limiter("1/h"), peer="testclient")
    assert (unknown.status, json.loads(unknown.body)["detail"]) == (500, "the peer 'testclient' is no IP address")
    for none in (None, ""):
        absent = ask(Limiter("1/h"), peer=none)
        assert absent.status == 500 and b"does not provide the peer's address" in absent.body


async def hello_asgi(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def hello_wsgi(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]


def test_the_test_client_of_starlette_has_a_key_by_its_option_client():
    app = Asgi(hello_asgi, Limiter("1/h"))
    assert "'testclient' is no IP address" in TestClient(app).get("/").json()["detail"]
    client = TestClient(app, client=("127.0.0.1", 0))
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(("target", "path"), [("/caf%C3%A9", "/caf\u00e9"), ("/caf%E9", "/caf\ufffd")])
def test_a_path_beyond_ascii_is_the_same_under_asgi_and_wsgi(target, path):
    seen = []

    def key(request):
        seen.append(request.path)
        return request.path

    TestClient(Asgi(hello_asgi, Limiter("5/h"), key=key)).get(target)
    Client(Wsgi(hello_wsgi, Limiter("5/h"), key=key)).get(target)
    assert seen == [path, path]


def test_a_request_without_a_key_is_denied_unless_it_is_admitted(ask):
    assert ask(Limiter("1/h"), peer=None).status == 500
    without = ask(Limiter("1/h"), key=keys.header("x-api-key"))
    assert json.loads(without.body) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": without.status,
        "detail": "the request has no key for the rate limit",
    }
    assert without.status == 400
    admitted = ask(Limiter("1/h"), key=keys.header("x-api-key"), on_no_key="admit")
    assert admitted.status == 200 and "ratelimit" not in admitted.fields
    limiter = Limiter("1/h")
    for status in (200, 429):
        assert ask(limiter, key=keys.header("X-Api-Key"), headers=[("x-api-key", "k")]).status == status


@pytest.mark.parametrize("on_no_key", ["deny", "admit"])
def test_a_header_that_is_there_twice_is_no_new_key(on_no_key):
    limiter = Limiter("1/h")
    options = {"key": keys.header("x-api-key"), "on_no_key": on_no_key}
    first = ask_asgi(limiter, headers=[("x-api-key", "k")], **options)
    assert first.status == 200
    for other in range(5):
        forged = [("x-api-key", "k"), ("x-api-key", str(other))]
        again = ask_asgi(limiter, headers=forged, **options)
        assert again.status == 400 and b"x-api-key is there more than once" in again.body


def test_an_empty_header_is_no_key(ask):
    for value in ("", " "):
        assert ask(Limiter("1/h"), key=keys.header("x-api-key"), headers=[("x-api-key", value)]).status == 400


@pytest.mark.parametrize(
    ("hops", "forwarded", "expected"),
    [
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "10.9.9.9, 203.0.113.9", "203.0.113.9"),  # the first is the client's own invention
        (2, "10.9.9.9, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (2, "203.0.113.9", "203.0.113.9"),
        (1, "203.0.113.9:4711", "203.0.113.9"),
        (1, "[2001:db8:1:2:3::4]:80", "2001:db8:1:2::"),
        (1, "2001:db8:1:2:3::4", "2001:db8:1:2::"),
        (1, None, "192.0.2.7"),
        (1, "unknown", None),
        (1, "x," * 100_000 + "203.0.113.9", "203.0.113.9"),
    ],
)
def test_the_client_behind_proxies_is_read_from_the_right(ask, hops, forwarded, expected):
    seen = []

    def key(request):
        seen.append(keys.client_ip(hops)(request))
        return seen[0]

    headers = [] if forwarded is None else [("x-forwarded-for", forwarded)]
    status = ask(Limiter("1/h"), key=key, headers=headers).status
    assert (seen, status) == ([expected], 400 if expected is None else 200)


@pytest.mark.parametrize("forwarded", ["2001:db8:0:0:0:0:0:1:4711", "x"])
def test_a_malformed_address_is_denied_where_requests_without_a_key_are_admitted(ask, forwarded):
    options = {"key": keys.client_ip(1), "on_no_key": "admit"}
    answer = ask(Limiter("1/h"), headers=[("x-forwarded-for", forwarded)], **options)
    assert answer.status == 400 and b"x-forwarded-for has no address" in answer.body
    assert ask(Limiter("1/h"), headers=[("x-forwarded-for", "unknown")], **options).status == 200


def test_the_number_of_proxies_is_checked():
    with pytest.raises(ValueError, match="give the number of proxies"):
        keys.client_ip(0)


def test_repeated_headers_are_one_list():
    limiter, key = Limiter("1/h"), keys.client_ip(1)
    forged = [("x-forwarded-for", "10.9.9.9"), ("x-forwarded-for", "203.0.113.9")]
    assert ask_asgi(limiter, key=key, headers=forged).status == 200
    assert not limiter.peek("203.0.113.9")


def ask_websocket(limiter, extensions):
    scope = {"type": "websocket", "path": "/x", "client": ("192.0.2.7", 1), "headers": [], "extensions": extensions}
    sent = []

    async def app(scope, receive, send):
        await send({"type": "websocket.accept"})

    async def send(message):
        sent.append(message)

    asyncio.run(Asgi(app, limiter)(scope, None, send))
    return sent


def test_a_websocket_is_charged_when_it_is_opened():
    limiter = Limiter("1/h")
    (accepted,) = ask_websocket(limiter, None)
    assert (b"ratelimit", b'"default";r=0;t=3600') in accepted["headers"]
    assert ask_websocket(limiter, None) == [{"type": "websocket.close", "code": 1013}]
    start, body = ask_websocket(limiter, {"websocket.http.response": {}})
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 429)
    assert (b"retry-after", b"3600") in start["headers"] and body["body"]


def test_other_events_pass():
    passed = []

    async def app(scope, receive, send):
        passed.append(scope["type"])

    asyncio.run(Asgi(app, Limiter("1/h"))({"type": "lifespan"}, None, None))
    assert passed == ["lifespan"]
