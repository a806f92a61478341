"""The Job that downloads repositories of the hub into a shared cache."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.model import CacheSpec
from pd_operator.build import model_cache, names
from pd_operator.build.hashing import short_hash
from pd_operator.build.launcher import FOLDER, launcher_mount, launcher_volume
from pd_operator.build.manifest import Manifest, child, child_labels
from pd_operator.build.parts.part import Tier
from pd_operator.build.parts.user import user_variables, variables
from pd_operator.build.pull_secrets import pull_secrets
from pd_operator.build.security import NON_ROOT, restricted_container, restricted_pod
from pd_operator.build.volumes import TMP, tmp_mount, tmp_volume
from pd_shared import labels

CONTAINER: Final = "download"
REFUSED: Final = 3
"""Exit code of the launcher's `download` where trying again cannot help."""

_ATTEMPTS: Final = 6
"""Pods after the first one, with 10 s to 6 min between them."""


def model_job(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """Nothing without a cache.

    A Job's template never changes, so its hash is in its name. It stays when it is done: a new one
    finds everything there, and ends at once.
    """
    given = model_cache.cache(deployment.spec)
    if given is None:
        return ()
    name = deployment.metadata.name
    template: Manifest = {
        "metadata": {"labels": child_labels(name, labels.MODEL)},
        "spec": _pod(deployment, given),
    }
    if restarted := deployment.metadata.annotations.get(labels.RESTARTED_AT):
        template["metadata"]["annotations"] = {labels.RESTARTED_AT: restarted}
    spec: Manifest = {
        "backoffLimit": _ATTEMPTS,
        "podFailurePolicy": {
            "rules": [
                # A drained node is no failed attempt.
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": CONTAINER, "operator": "In", "values": [REFUSED],
                    },
                },
            ]
        },
        "template": template,
    }  # fmt: skip
    job = names.model_job(name, short_hash(spec))
    return (child(deployment, "batch/v1", "Job", job, labels.MODEL, spec=spec),)


def _pod(deployment: PDDeployment, given: CacheSpec) -> Manifest:
    # Where decoders run, which every mode has, their image runs.
    tier = Tier(deployment, labels.DECODER, "")
    claim = {"claimName": given.claim_name}
    result: Manifest = {
        "serviceAccountName": names.model(deployment.metadata.name),
        **pull_secrets(deployment),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # A new volume may be root's; the group may write.
        "securityContext": {
            **restricted_pod(), "fsGroup": NON_ROOT, "fsGroupChangePolicy": "OnRootMismatch",
        },
        "restartPolicy": "Never",
        "containers": [_container(deployment, given, tier.image)],
        "volumes": [
            tmp_volume(),
            launcher_volume(deployment.metadata.name),
            {"name": "model", "persistentVolumeClaim": claim},
        ],
    }  # fmt: skip
    if tier.spec.node_selector:
        result["nodeSelector"] = dict(sorted(tier.spec.node_selector.items()))
    if tier.spec.tolerations:
        result["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_none=True, mode="json")
            for toleration in tier.spec.tolerations
        ]
    return result


def _container(deployment: PDDeployment, given: CacheSpec, image: str) -> Manifest:
    spec = deployment.spec
    return {
        "name": CONTAINER,
        "image": image,
        # Not isolated: where the image has its packages may be said by PYTHONPATH.
        "command": ["python3", "-B", FOLDER, "download"],
        "args": [
            *(each.argument for each in model_cache.repositories(spec)),
            *(f"--ignore={pattern}" for pattern in given.ignore),
        ],
        "env": _environment(deployment, given),
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"memory": "8Gi"},
        },
        "securityContext": restricted_container(),
        "volumeMounts": [
            tmp_mount(),
            launcher_mount(),
            {"name": "model", "mountPath": model_cache.FOLDER},
        ],
    }


def _environment(deployment: PDDeployment, given: CacheSpec) -> list[Manifest]:
    """The user's variables may say how the hub is reached: HTTPS_PROXY, HF_ENDPOINT."""
    hub = deployment.spec.model.source.hugging_face
    own: dict[str, Manifest] = {
        name: {"value": value}
        for name, value in {
            "DO_NOT_TRACK": "1",
            "HF_HOME": model_cache.home(given),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            # The image may say otherwise.
            "HF_HUB_OFFLINE": "0",
            "HOME": TMP,
            "USER": "engine",
        }.items()
    }
    if hub and hub.token_secret:
        key = {"name": hub.token_secret.name, "key": hub.token_secret.key}
        own["HF_TOKEN"] = {"valueFrom": {"secretKeyRef": key}}
    # HF_HUB_CACHE and its like would take the cache elsewhere.
    users = [
        variable
        for variable in user_variables(variables(deployment.spec.engine.env, ()))
        if variable["name"] not in own and not variable["name"].endswith("_CACHE")
    ]
    return [*({"name": name, **value} for name, value in sorted(own.items())), *users]
