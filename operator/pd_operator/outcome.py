"""What came of carrying out a plan; frozen values."""

from dataclasses import dataclass

from pd_operator.errors import ApiError, Class, classify
from pd_operator.observe import Manifest, Ref


@dataclass(frozen=True)
class Failed:
    """An object that could not be written."""

    ref: Ref
    error: ApiError

    @property
    def kind(self) -> Class:
        """What the error asks for."""
        return classify(self.error)


@dataclass(frozen=True)
class Outcome:
    """Objects as they came back from the API server, and those that could not be written."""

    created: tuple[Manifest, ...] = ()
    changed: tuple[Manifest, ...] = ()
    deleted: tuple[Ref, ...] = ()
    conflicts: tuple[Ref, ...] = ()
    """Names that belong to somebody else."""
    waiting: tuple[Ref, ...] = ()
    """Names whose holder is about to go."""
    failed: tuple[Failed, ...] = ()

    @property
    def errors(self) -> tuple[Failed, ...]:
        """Failures that the user should know: a stale view is none, it mends itself."""
        silent = (Class.CONFLICT, Class.ENDING)
        return tuple(failed for failed in self.failed if failed.kind not in silent)
