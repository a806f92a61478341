"""Where repositories of the hub are in a shared cache.

Each has a link by its revision and what is left out of it: equal downloads of all PDDeployments
share one, and what it leads to never changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pd_operator.api.deployment import PDDeploymentSpec
from pd_operator.api.model import CacheSpec
from pd_operator.build.hashing import short_hash

FOLDER: Final = "/mnt/model"
"""Where the volume is mounted, in the engines and in the download Job."""

_LINKS: Final = "pd-operator"


@dataclass(frozen=True)
class Cached:
    """One repository that engines load."""

    name: str
    revision: str | None
    link: str
    """The folder that engines load, in the container."""

    @property
    def argument(self) -> str:
        """How the launcher is told of it."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"--repository={self.link}={self.name}{revision}"


def cache(spec: PDDeploymentSpec) -> CacheSpec | None:
    """The cache, where there is one."""
    hub = spec.model.source.hugging_face
    return hub.cache if hub else None


def home(given: CacheSpec) -> str:
    """HF_HOME of the download Job: where the cache is in the container."""
    return f"{FOLDER}/{given.path}" if given.path else FOLDER


def cached(given: CacheSpec, name: str, revision: str | None) -> Cached:
    """Where a repository is in a cache."""
    content = {"name": name, "revision": revision, "ignore": sorted(given.ignore)}
    return Cached(name, revision, f"{home(given)}/{_LINKS}/{short_hash(content)}")


def repositories(spec: PDDeploymentSpec) -> tuple[Cached, ...]:
    """All that the engines load from the cache, each once; empty without one."""
    given = cache(spec)
    if given is None:
        return ()
    return tuple(dict.fromkeys(cached(given, *named) for named in _named(spec)))


def _named(spec: PDDeploymentSpec) -> Iterator[tuple[str, str | None]]:
    hub = spec.model.source.hugging_face
    yield spec.model.id, hub.revision if hub else None
    drafts = spec.engine.speculative
    if drafts and drafts.model and not drafts.model.startswith("/"):
        yield drafts.model, drafts.revision
    for adapter in spec.model.adapters:
        if found := adapter.source.hugging_face:
            yield found.id, found.revision
