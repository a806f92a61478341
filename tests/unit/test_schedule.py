"""The order of the tests on the cluster, and which must share a process."""

import pytest

from tests.schedule import Planned, group, order
from tools.paths import REPOSITORY

pytest_plugins = ["pytester"]


def made(name: str, *markers: str, of: str = "") -> Planned:
    return Planned(name, frozenset(("cluster", *markers)), of)


def names(tests: list[Planned], seconds: dict[str, float] | None = None) -> list[str]:
    return [tests[i].id for i in order(tests, seconds or {})]


def test_markers_come_before_all_else() -> None:
    tests = [
        *(made("uninstalls", "uninstalls"), made("alone", "alone"), made("plain")),
        *(made("untouched", "untouched"), made("leftovers", "leftovers")),
    ]
    wanted = ["leftovers", "untouched", "plain", "alone", "uninstalls"]
    assert names(tests, {"uninstalls": 99}) == wanted


def test_the_longest_group_is_first_and_stays_together() -> None:
    tests = [made("a", of="g"), made("b"), made("c", of="g"), made("d")]
    assert names(tests, {"a": 2, "b": 3, "c": 2, "d": 9}) == ["d", "a", "c", "b"]


def test_what_never_ran_is_guessed_by_its_marker() -> None:
    tests = [made("api"), made("engine", "engine")]
    assert names(tests) == ["engine", "api"]
    assert names(tests, {"engine": 0.1}) == ["api", "engine"]


def test_those_that_run_apart_keep_their_written_order() -> None:
    tests = [made("b", "leftovers"), made("a", "leftovers")]
    assert names(tests, {"a": 9}) == ["b", "a"]


def test_tests_without_the_cluster_keep_their_order() -> None:
    tests = [Planned("b", frozenset()), Planned("a", frozenset())]
    assert names(tests, {"a": 9}) == ["b", "a"]


def test_nothing_is_lost() -> None:
    tests = [made(str(i), of=str(i % 3) if i % 2 else "") for i in range(20)]
    assert sorted(order(tests, {"4": 7.0})) == list(range(20))


@pytest.mark.parametrize(
    ("fixtures", "expected"),
    [
        ({"kube": "session"}, ""),
        ({"kube": "session", "pair": "session"}, "pair"),
        ({"single": "module", "pair": "session"}, "pair"),
        ({"stored": "module"}, "tests/e2e/x.py"),
    ],
    ids=str,
)
def test_groups(fixtures: dict[str, str], expected: str) -> None:
    assert group(fixtures, "tests/e2e/x.py") == expected


def test_groups_stay_in_one_process(pytester: pytest.Pytester) -> None:
    """As the real run does it: three processes, four tests of which two belong together."""
    pytester.makepyfile(
        conftest="""
        from pathlib import Path
        from tests import spread
        PATH = Path("groups.json").absolute()
        def pytest_collection_modifyitems(config, items):
            spread.write(PATH, {i.nodeid: "pair" for i in items if "pair" in i.name})
        def pytest_xdist_make_scheduler(config, log):
            return spread.GroupScheduling(config, log, PATH)
        """,
        test_it="""
        import os, pytest
        from pathlib import Path
        @pytest.mark.parametrize("name", ["pair1", "a", "pair2", "b", "pair3", "c"])
        def test_x(name):
            Path(name).write_text(os.environ["PYTEST_XDIST_WORKER"])
        """,
    )
    done = pytester.runpytest_subprocess(
        *("-n", "3", "--dist", "loadgroup", "-p", "no:cacheprovider"),
        *("-o", "pythonpath=" + str(REPOSITORY), "-p", "no:asyncio", "-p", "no:timeout"),
    )
    done.assert_outcomes(passed=6)
    assert len({(pytester.path / f"pair{i}").read_text() for i in (1, 2, 3)}) == 1
