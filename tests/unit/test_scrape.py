import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pd_operator.autoscale import exposition
from pd_operator.scrape import ScrapeError, Scraper
from pd_shared import metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Proxy:
    """An HTTP server that answers /metrics as told."""

    def __init__(self) -> None:
        self.text = f"{metrics.REQUESTS_OFFERED} 7\n"
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        self.silent = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.silent:
            await asyncio.Event().wait()
        return web.Response(text=self.text, status=self.status, headers=self.headers)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
async def scraper(proxy: Proxy) -> AsyncIterator[Scraper]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", proxy.answer)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    assert server.port is not None
    async with Scraper(server.port) as scraper:
        yield scraper
    await server.close()


async def test_reads_a_proxy(proxy: Proxy, scraper: Scraper) -> None:
    assert (await scraper("127.0.0.1")).offered == 7
    assert proxy.asked == ["/metrics"]


async def test_follows_no_redirect(proxy: Proxy, scraper: Scraper) -> None:
    proxy.status, proxy.headers = 302, {"Location": "/elsewhere"}
    with pytest.raises(ScrapeError, match="answered 302"):
        await scraper("127.0.0.1")
    assert proxy.asked == ["/metrics"]


@pytest.mark.parametrize("status", [204, 404, 500, 503])
async def test_an_error_is_no_sample(proxy: Proxy, scraper: Scraper, status: int) -> None:
    proxy.status = status
    with pytest.raises(ScrapeError, match=str(status)):
        await scraper("127.0.0.1")


async def test_too_much_is_refused(
    proxy: Proxy, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "MAX_BYTES", 5)
    with pytest.raises(ScrapeError, match="more than 5 bytes"):
        await scraper("127.0.0.1")


async def test_compression_is_refused(proxy: Proxy, scraper: Scraper) -> None:
    proxy.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(ScrapeError, match="compressed"):
        await scraper("127.0.0.1")


async def test_bytes_that_are_no_text_are_no_sample(proxy: Proxy, scraper: Scraper) -> None:
    proxy.text = "\x00\udc80garbage".encode("utf-8", "surrogatepass").decode("latin-1")
    assert (await scraper("127.0.0.1")).offered is None


@pytest.mark.parametrize(
    "address", ["", "localhost", "169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "1.2.3.4/x"]
)
async def test_what_is_no_pod_ip_is_not_asked(proxy: Proxy, scraper: Scraper, address: str) -> None:
    with pytest.raises(ScrapeError, match=r"no (IP )?address"):
        await scraper(address)
    assert proxy.asked == []


async def test_a_refused_connection_is_said(unused_tcp_port: int) -> None:
    async with Scraper(unused_tcp_port) as scraper:
        with pytest.raises(ScrapeError, match=f"127.0.0.1:{unused_tcp_port}/metrics"):
            await scraper("127.0.0.1")


async def test_a_proxy_that_does_not_answer_is_said_in_words(
    proxy: Proxy, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.silent = True
    monkeypatch.setattr(scraper._session, "_timeout", aiohttp.ClientTimeout(total=0.05))
    with pytest.raises(ScrapeError, match=r"/metrics: .*(time|Time)"):
        await scraper("127.0.0.1")
