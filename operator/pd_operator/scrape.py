"""Reads /metrics of one proxy pod over HTTP."""

import asyncio
import ipaddress
from typing import Final

import aiohttp
from yarl import URL

from pd_operator.autoscale import exposition
from pd_operator.autoscale.exposition import ExpositionError
from pd_operator.autoscale.sample import ProxySample, read
from pd_shared import ports

TIMEOUT_SECONDS: Final = 2.0
CONCURRENT: Final = 32
"""Proxies that are read at the same time."""


class ScrapeError(Exception):
    """A proxy could not be read; `str()` says why in one line."""


class Scraper:
    """One HTTP session for all proxies. Use it as an async context manager, within a loop."""

    def __init__(self, port: int = ports.PROXY_ADMIN) -> None:
        self._port = port
        self._slots = asyncio.Semaphore(CONCURRENT)
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
            connector=aiohttp.TCPConnector(limit=CONCURRENT, keepalive_timeout=60.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A few compressed bytes could become a lot of memory.
            auto_decompress=False,
            headers={"Accept": "text/plain", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> "Scraper":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __call__(self, address: str) -> ProxySample:
        """The metrics of the proxy with this pod IP; ScrapeError where there are none."""
        url = _url(address, self._port)
        async with self._slots:
            try:
                async with self._session.get(url, allow_redirects=False) as response:
                    if response.status != 200:
                        raise ScrapeError(f"{url} answered {response.status}")
                    text = await _text(response)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise ScrapeError(f"{url}: {str(error) or 'no answer in time'}") from error
        try:
            return read(text)
        except ExpositionError as error:
            raise ScrapeError(f"{url}: {error}") from error


def _url(address: str, port: int) -> URL:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError as error:
        raise ScrapeError(f"{address!r} is no IP address") from error
    # What a pod's status says is not trusted with the operator's own or the node's services.
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        raise ScrapeError(f"{address} is no address of a pod")
    return URL.build(scheme="http", host=str(ip), port=port, path="/metrics")


async def _text(response: aiohttp.ClientResponse) -> str:
    if "Content-Encoding" in response.headers:
        raise ScrapeError(f"{response.url} is compressed, which was not asked for")
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_chunked(65536):
        size += len(part)
        if size > exposition.MAX_BYTES:
            raise ScrapeError(f"{response.url} has more than {exposition.MAX_BYTES} bytes")
        parts.append(part)
    return b"".join(parts).decode("utf-8", errors="replace")
