"""`spec.proxy.apiKeys` and `spec.proxy.tls`: who may come in, and by what way."""

from pd_operator.api.base import ApiModel, DnsSubdomain


class ProxyApiKeys(ApiModel):
    """Clients need an API key, as `Authorization: Bearer KEY` or `x-api-key: KEY`; others are
    answered 401. Engines never see it."""

    secret_name: DnsSubdomain
    """Secret with the keys, in the PDDeployment's namespace. Each of its entries is a tenant, each
    line of an entry a key of that tenant, so that keys can be changed one after the other. A
    change counts within about a minute, without a restart. Becomes: a volume of the proxy, and
    `apiKeys.folder` of its file; the operator never reads it."""
    isolate_cache: bool = True
    """Whether no tenant's prompts can be found in another one's prefix cache, by vLLM's
    `cache_salt`. `false` lets all tenants share what they have in common, such as a system prompt:
    faster, and a tenant can guess by the time what others have asked. Default: true. Becomes:
    `apiKeys.isolateCache`."""


class ProxyTls(ApiModel):
    """TLS at the port of clients; its number stays. Metrics and readiness are on another port."""

    secret_name: DnsSubdomain
    """Secret of type kubernetes.io/tls in the PDDeployment's namespace, as cert-manager writes it.
    A renewed certificate counts within about a minute, without a restart. Becomes: a volume of the
    proxy, `tls.folder` of its file, and https in `status.url`; the operator never reads it."""
