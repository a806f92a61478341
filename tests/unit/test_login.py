"""kopf's credentials."""

from pathlib import Path

import pytest

from pd_operator import login as module
from pd_operator.login import login


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
def test_in_a_pod_the_token_is_read_anew_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, server: str
) -> None:
    monkeypatch.setattr(module, "_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        found = login()
        assert found is not None
        assert (found.server, found.token) == (server, token)
        assert found.ca_path == str(tmp_path / "ca.crt")


def test_elsewhere_the_kubeconfig_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: 'https://example:1'}}]\n"
        "users: [{name: x, user: {token: t}}]\n"
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(config))
    found = login()
    assert found is not None
    assert (found.server, found.token) == ("https://example:1", "t")
