"""The status in mode Colocated, and on the way into it."""

from pd_operator.plan import Replicas
from pd_operator.status import compose, conditions, notices
from pd_operator.status.facts import Facts
from tests.made import everything, snapshot, tiers, wanted
from tests.status_facts import DESIRED, NOW, condition, facts, told

ALONE = {"mode": "Colocated"}
STORE = {"mooncake": {"store": {"enabled": True, "segmentSize": "64Mi"}}}


def colocated(*more: object, **given: object) -> Facts:
    seen = snapshot([*everything(wanted(ALONE)), *(m for m in more if isinstance(m, dict))])
    made = facts(seen, spec={**ALONE, **STORE}, **given)  # type: ignore[arg-type]
    return Facts(**{**vars(made), "replicas": Replicas(0, 1)})


def test_ready_without_prefillers_and_without_conditions_of_what_is_not_used() -> None:
    seen = colocated()
    assert told("Ready", seen) == ("True", "Ready")
    assert told("Progressing", seen) == ("False", "Complete")
    kinds = {c["type"] for c in compose.status(seen, NOW)["conditions"]}
    unused = {
        "ModelReady", "PrefillReady", "KVTransferVerified", "KVStoreReady", "RDMAReady", "SLOMet",
    }  # fmt: skip
    assert kinds == set(conditions.ORDER) - unused


def test_the_mode_and_the_one_tier_are_shown() -> None:
    written = compose.status(colocated(), NOW)
    assert written["mode"] == "Colocated"
    assert "prefill" not in written
    assert written["decode"]["desiredReplicas"] == 1
    assert compose.status(facts(), NOW)["mode"] == "Disaggregated"


def test_prefillers_are_shown_until_they_are_gone() -> None:
    seen = colocated(*tiers(DESIRED))
    written = compose.status(seen, NOW)
    assert written["prefill"]["readyReplicas"] == 1
    assert written["prefill"]["desiredReplicas"] == written["prefill"]["updatedReplicas"] == 0
    assert written["prefill"]["revision"] == ""
    assert told("Ready", seen) == ("False", "RollingOut")
    assert DESIRED.prefiller.name in condition("Progressing", seen)["message"]


def test_that_prefillers_go_is_told_once() -> None:
    before = compose.status(facts(), NOW)
    seen = colocated(*tiers(DESIRED), status=before)
    texts = [n.message for n in notices.writes(seen, seen.snapshot) if n.reason == "RollingOut"]
    assert any("prefillers" in text and "mode Colocated" in text for text in texts)
    after = colocated(*tiers(DESIRED), status=compose.status(seen, NOW))
    assert [n for n in notices.writes(after, after.snapshot) if n.reason == "RollingOut"] == []
