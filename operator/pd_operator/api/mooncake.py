"""`spec.mooncake`: Mooncake's own parts."""

from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, ImageReference, Rule
from pd_operator.api.store import StoreSpec
from pd_shared import ports

Port = Annotated[int, Field(ge=1024, le=65535)]


class EtcdSpec(ApiModel):
    """An etcd that is there already."""

    endpoints: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    max_length=262,
                    pattern=r"^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$",
                ),
            ],
            ...,
        ],
        Field(min_length=1, max_length=9),
    ]
    """Its members as `host:port`, without a password. Becomes: `--etcd_endpoints` of the masters,
    and `etcd://` as the engines' master address."""


class HASpec(ApiModel):
    """Several masters, of which etcd elects one."""

    etcd: EtcdSpec
    replicas: Annotated[int, Field(ge=2, le=5)] = 2
    """How many masters: one leads, another one takes over, with an empty index. Default: 2.
    Becomes: `replicas` of `<name>-mooncake`."""


class MasterSpec(ApiModel):
    """The Mooncake master, which knows where each object of the store is."""

    port: Port = ports.MOONCAKE_RPC
    """Port of its RPC server. Default: 50051. Becomes: `--rpc_port`."""
    metadata_port: Port = ports.MOONCAKE_METADATA
    """Port of its HTTP metadata service. Default: 8080. Becomes: `--http_metadata_server_port`."""
    ha: HASpec | None = None
    """More than one master. Default: one, without etcd. Becomes: `--enable_ha`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"(has(self.port) ? self.port : {ports.MOONCAKE_RPC})"
            f" != (has(self.metadataPort) ? self.metadataPort : {ports.MOONCAKE_METADATA})"
            f" && (has(self.port) ? self.port : 0) != {ports.MOONCAKE_ADMIN}"
            f" && (has(self.metadataPort) ? self.metadataPort : 0) != {ports.MOONCAKE_ADMIN}",
            "port and metadataPort must differ from one another and from"
            f" {ports.MOONCAKE_ADMIN}, the admin port",
        ),
    )


class MooncakeSpec(ApiModel):
    """Mooncake's own parts."""

    store: StoreSpec = StoreSpec()
    master: MasterSpec = MasterSpec()
    image: ImageReference | None = None
    """Image with `mooncake_master` and `mooncake_client`. Default: the image that the operator was
    installed with. Becomes: the image of the containers `master` and `store`."""
