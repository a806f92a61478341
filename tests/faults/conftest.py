"""Pauses between two tries cost no time here: what is waited for is there at the next look."""

import pytest

from pd_operator import apply


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_PAUSES", (0.0, 0.0, 0.0))
