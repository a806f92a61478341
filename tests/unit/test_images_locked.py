"""The images install what uv.lock says."""

import pytest

from tools.images import locked


@pytest.mark.parametrize("extra", locked.EXTRAS)
def test_requirements_equal_the_locks_export(extra: str) -> None:
    assert locked.path(extra).read_text(encoding="utf-8") == locked.export(extra), (
        "run: python -m tools.images lock"
    )
