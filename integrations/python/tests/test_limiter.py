import threading

import pytest

from tollgate import Decision, Limiter


def names():
    """The names of the algorithms, as the error for any other lists them."""
    with pytest.raises(ValueError) as unknown:
        Limiter("1/s", algorithm="none")
    return str(unknown.value).partition("use one of ")[2].split(", ")


def test_a_decision_is_true_if_the_request_was_admitted():
    limiter = Limiter("2/h")
    decisions = [limiter.check("a") for _ in range(3)]
    assert all(isinstance(decision, Decision) for decision in decisions)
    assert [bool(decision) for decision in decisions] == [True, True, False]
    assert [decision.admitted for decision in decisions] == [True, True, False]
    assert [decision.remaining for decision in decisions] == [1, 0, 0]
    assert [decision.limit for decision in decisions] == [2, 2, 2]
    assert decisions[1].retry_after == 0.0
    assert 1790 < decisions[2].retry_after <= 1800
    assert 1790 < decisions[0].reset_after <= 1800
    assert 3590 < decisions[2].reset_after <= 3600
    assert repr(decisions[0]) == "<Decision admitted, 1 of 2 left>"
    assert repr(decisions[2]).startswith("<Decision denied, retry after 17")


def test_a_burst_is_the_limit_of_a_token_bucket():
    limiter = Limiter("100/h burst 3")
    assert [limiter.allow("a") for _ in range(4)] == [True, True, True, False]
    assert limiter.check("a").limit == 3


def test_a_cost_is_charged_as_a_whole_or_not_at_all():
    limiter = Limiter("5/h")
    assert limiter.check("a", cost=3).remaining == 2
    assert not limiter.check("a", 3)
    assert limiter.allow("a", cost=2)
    never = limiter.check("b", cost=6)
    assert not never and never.retry_after is None
    assert repr(never) == "<Decision denied, more cells than the 5 that can ever fit>"
    assert limiter.check("b", cost=0).remaining == 5


def test_peek_charges_nothing_and_reset_forgets():
    limiter = Limiter("1/h")
    assert limiter.peek("a") and limiter.peek("a")
    assert limiter.check("a")
    assert not limiter.peek("a")
    limiter.reset("a")
    assert limiter.check("a")


def test_a_str_is_the_same_key_as_its_utf_8_bytes():
    limiter = Limiter("1/h")
    assert limiter.allow("schlüssel")
    assert not limiter.allow("schlüssel".encode())
    assert limiter.allow(b"\xff\x00")
    assert limiter.allow("")


def test_a_key_that_is_neither_str_nor_bytes_is_an_error():
    limiter = Limiter("1/h")
    with pytest.raises(TypeError, match=r"a key is a str or bytes, not int: use str\(key\)"):
        limiter.check(7)
    assert limiter.live_keys() == 0


def test_a_surrogate_without_its_other_half_is_part_of_a_key():
    limiter = Limiter("1/h")
    assert limiter.allow("\ud800") and not limiter.allow("\ud800")
    assert limiter.allow("\ud801")


@pytest.mark.parametrize("cost", [-1, 1 << 64, -(10**400)], ids=["negative", "2^64", "huge"])
def test_a_cost_out_of_range_is_an_error(cost):
    limiter = Limiter("1/h")
    for ask in (limiter.check, limiter.allow, limiter.peek, limiter.wait, limiter._waiter):
        with pytest.raises(ValueError, match="^cost is .*: give a whole number, 0 or more and below 2\\^64"):
            ask("a", cost)
    assert limiter.live_keys() == 0
    with pytest.raises(TypeError, match="'cost'"):
        limiter.check("a", "1")


@pytest.mark.parametrize("algorithm", names())
def test_every_algorithm_admits_its_limit(algorithm):
    limiter = Limiter("10/h", algorithm=algorithm, capacity=1_000)
    assert limiter.algorithm == algorithm
    admitted = [limiter.allow("a") for _ in range(30)]
    assert admitted == [True] * 10 + [False] * 20


def test_a_queue_tells_how_long_to_wait():
    limiter = Limiter("10/s burst 5", algorithm="leaky-queue")
    assert limiter.check("a").delay == 0.0
    assert 0.05 < limiter.check("a").delay <= 0.1
    assert Limiter("10/s").check("a").delay == 0.0


def test_the_quota_can_be_read():
    limiter = Limiter("100 per 2 minutes burst 20")
    assert (limiter.limit, limiter.period, limiter.quota) == (100, 120.0, "100/2min burst 20")
    assert repr(limiter) == 'Limiter("100/2min burst 20", algorithm="gcra")'
    assert limiter.memory_bytes > 1_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quota": "100"}, r'quota "100": column 4: expected "/" or "per"'),
        ({"quota": "0/s"}, r'quota "0/s": column 1: '),
        ({"quota": "1.5/s"}, r"3 per 2 s"),
        ({"algorithm": "token"}, r"no algorithm has this name: use one of gcra, fixed-window, "),
        ({"capacity": 0}, r"the capacity is 0 keys: "),
        ({"capacity": -1}, r"capacity is -1: give a whole number, 0 or more and below 2\^64"),
        ({"max_waiters": -1}, r"max_waiters is -1: give a whole number, 0 or more and below 2\^32"),
        ({"mode": 600}, r"mode is 600: give permissions up to 0o777, such as 0o600"),
        ({"quota": "1 per 367 days"}, r"the rate is below one cell in 366 days: raise the limit or"),
        ({"on_full": "panic"}, r"on_full is \"evict\", \"deny\", \"admit\" or .*, not 'panic'"),
        ({"on_full": {"shared": "lots"}}, r'quota "lots": column 1: '),
        ({"quota": "65537/h", "algorithm": "sliding-log"}, r"a log keeps at most 65,536 events"),
        ({"shared": "/proc/none/table"}, r"shared memory: create the file: .*check the path"),
    ],
)
def test_a_wrong_choice_is_a_value_error_that_says_what_to_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        Limiter(**{"quota": "100/s", **arguments})


def test_on_full_decides_about_a_key_without_a_slot():
    def outcome(on_full):
        limiter = Limiter("1/h", capacity=1, on_full=on_full)
        admitted = sum(limiter.allow(str(key)) for key in range(20_000))
        return admitted, limiter.stats(), limiter.live_keys()

    admitted, stats, live = outcome("deny")
    assert admitted == live == stats["claimed"] and stats["denied_full"] == 20_000 - admitted
    limiter = Limiter("1/h", capacity=1, on_full="deny")
    found = [(limiter.finds_slot(key), limiter.allow(key)) for key in map(str, range(1_000))]
    assert set(found) == {(True, True), (False, False)}
    assert limiter.finds_slot("0") and not limiter.allow("0")
    admitted, stats, _ = outcome("admit")
    assert admitted == 20_000 and stats["admitted_full"] > 0
    admitted, stats, _ = outcome("evict")
    assert admitted == 20_000 and stats["evicted"] > 0
    admitted, stats, live = outcome({"shared": "3/h"})
    assert admitted == live + 3 and stats["overflowed"] > 3


def test_threads_are_granted_exactly_the_quota():
    limiter = Limiter("1000/d")
    granted = []

    def ask():
        granted.append(sum(limiter.allow("a") for _ in range(500)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 1_000
