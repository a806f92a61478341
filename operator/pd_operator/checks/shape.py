"""What the API server's CEL rules say as well, for specs that never met an API server."""

import re
from collections.abc import Iterator
from typing import Final

from pd_operator.api.deployment import NAME_MAX_LENGTH, PDDeployment
from pd_operator.api.engine import Device
from pd_operator.api.kv_transfer import Protocol
from pd_operator.api.network import Isolation
from pd_operator.checks.problem import Problem

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def shape_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Fields that exclude or need one another."""
    name = deployment.metadata.name
    if len(name) > NAME_MAX_LENGTH or not _NAME.fullmatch(name):
        yield Problem(
            "InvalidName",
            "metadata.name",
            f"metadata.name must be a DNS-1035 label of at most {NAME_MAX_LENGTH} characters:"
            " start with a letter, only a-z, 0-9 and -",
        )
    spec = deployment.spec
    source = spec.model.source
    if (
        sum(one is not None for one in (source.hugging_face, source.pvc, source.local, source.oci))
        != 1
    ):
        yield Problem(
            "InvalidModelSource",
            "spec.model.source",
            "spec.model.source must set exactly one of huggingFace, pvc, local, oci",
        )
    if source.hugging_face and source.hugging_face.token_secret:
        key = source.hugging_face.token_secret.key
        if key == "." or key.startswith(".."):
            yield Problem(
                "InvalidModelSource",
                "spec.model.source.huggingFace.tokenSecret.key",
                "spec.model.source.huggingFace.tokenSecret.key must not be '.' nor start with"
                " '..': no Secret can hold such a key",
            )
    network = spec.network
    if network.monitoring_namespaces and network.isolation is Isolation.DISABLED:
        yield Problem(
            "FieldNotUsed",
            "spec.network.monitoringNamespaces",
            "spec.network.monitoringNamespaces is only allowed where spec.network.isolation is"
            " Enabled: without it nobody is kept away",
        )
    yield from _protocol(deployment)


def _protocol(deployment: PDDeployment) -> Iterator[Problem]:
    spec = deployment.spec
    rdma = spec.kv_transfer.protocol is Protocol.RDMA
    if spec.rdma and not rdma:
        yield Problem(
            "RDMANotUsed",
            "spec.rdma",
            "spec.rdma is only allowed where spec.kvTransfer.protocol is rdma",
        )
    if spec.engine.device is Device.CPU and rdma:
        yield Problem(
            "InvalidProtocol",
            "spec.kvTransfer.protocol",
            "spec.kvTransfer.protocol must be tcp where spec.engine.device is cpu",
        )
