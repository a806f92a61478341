"""Posts Events about a PDDeployment; a failure to do so is logged and changes nothing."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from pd_operator.client import Api
from pd_operator.errors import ApiError
from pd_operator.kinds import EVENT, PD_DEPLOYMENT
from pd_operator.observe import Owner
from pd_operator.status.notices import Notice, digest

_LOG: Final = logging.getLogger(__name__)
_MESSAGE_BYTES: Final = 1000


async def post(api: Api, owner: Owner, notices: Iterable[Notice], instance: str) -> None:
    """Post each notice once: an Event of the same id that exists already is left as it is."""
    for notice in notices:
        try:
            await api.create(event(owner, notice, datetime.now(UTC), instance))
        except ApiError as error:
            if error.status != 409:
                _LOG.warning("could not post the Event %s: %s", notice.reason, error)


def event(owner: Owner, notice: Notice, now: datetime, instance: str) -> dict[str, Any]:
    """The Event object of a notice."""
    seconds = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    message = notice.message.encode()[:_MESSAGE_BYTES].decode(errors="ignore")
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {
            "name": f"{owner.name}.{digest(owner.uid, notice.id, notice.reason)}",
            "namespace": owner.namespace,
        },
        "involvedObject": {
            "apiVersion": PD_DEPLOYMENT.api_version,
            "kind": PD_DEPLOYMENT.name,
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
        "type": notice.type,
        "reason": notice.reason,
        "message": message,
        "count": 1,
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "reportingComponent": "pd-operator",
        "reportingInstance": instance,
        "source": {"component": "pd-operator"},
    }
