"""The data port: from a call to its answer."""

import asyncio
import re
import secrets
from functools import partial
from itertools import count
from typing import Final

from pd_proxy import body as bodies
from pd_proxy import surface
from pd_proxy.access import Access
from pd_proxy.access_log import AccessLog
from pd_proxy.admission import Admission, Claim, Ticket
from pd_proxy.asked import Asked, read_asked
from pd_proxy.attempt import CLIENT_ERROR, UPSTREAM_ERROR, Context
from pd_proxy.body import Completion
from pd_proxy.budget import cost
from pd_proxy.config import Config
from pd_proxy.dispatch import Dispatcher, NoDecoderError
from pd_proxy.errors import ProxyError
from pd_proxy.fair_queue import NORMAL
from pd_proxy.handoff import Job
from pd_proxy.http.call import Call
from pd_proxy.http.headers import find, to_engine
from pd_proxy.http.request import Request
from pd_proxy.log import log
from pd_proxy.measure import Measure
from pd_proxy.metrics import Metrics

_OVERLOADED: Final = (429, 503)
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}")


class Api:
    """Handles each call on the data port in a task of its own."""

    def __init__(
        self,
        context: Context,
        dispatcher: Dispatcher,
        admission: Admission,
        config: Config,
        *,
        access: Access | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._admission = admission
        self._access = access
        self._access_log = access_log
        self._in_flight = config.limits.in_flight
        self._asked = Asked(NORMAL, config.timeouts.first_token)
        """Of a client that asks for nothing."""
        self._loop = asyncio.get_running_loop()
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)
        self._discarded = Metrics()
        """Of calls that are no load for the tiers."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.last_arrival = float("-inf")
        """When a request for inference came last, in the loop's time."""

    @property
    def in_flight(self) -> int:
        """Calls that have no answer yet."""
        return len(self._tasks)

    def handle(self, call: Call) -> None:
        """See Server."""
        task = self._loop.create_task(self._serve(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.on_gone = task.cancel

    def invalid(self, error: ProxyError) -> None:
        """A request was refused before it became a call."""
        if self._access_log is not None:
            self._access_log.refused(error.status)
        if error.status == 401:
            # Who has no key is no load that anybody should scale for.
            self._context.metrics.requests.add(CLIENT_ERROR)
            return
        outcome = "overloaded" if error.status in _OVERLOADED else CLIENT_ERROR
        Measure(self._context.metrics, self._context.now(), 0).end(outcome, self._context.now())

    async def _serve(self, call: Call) -> None:
        request = call.request
        measure = None
        if request.path in surface.INFERENCE and request.method == b"POST":
            self.last_arrival = now = self._context.now()
            measure = Measure(self._context.metrics, now, len(request.body))
        request_id = self._request_id(call)
        if self._access_log is not None:
            call.peer_name = call.peer
        outcome = "cancelled"
        try:
            outcome = await self._answer(call, measure, request_id)
        finally:
            now = self._context.now()
            if measure is not None:
                measure.end(outcome, now)
            if self._access_log is not None:
                self._access_log.add(call, request_id, outcome, measure, now)

    async def _answer(self, call: Call, measure: Measure | None, request_id: bytes) -> str:
        """Answer the call, whatever happens; returns the outcome."""
        try:
            return await self._dispatch(call, measure, request_id)
        except ProxyError as error:
            call.respond_error(error, b"x-request-id: %b\r\n" % request_id)
            if isinstance(error, NoDecoderError):
                return "no_backend"
            return "overloaded" if error.status in _OVERLOADED else CLIENT_ERROR
        except Exception as error:  # a bug here must cost one request, and not hide
            self._context.metrics.internal_errors += 1
            log("error", "internal error", kind=type(error).__name__, request=request_id.decode())
            if call.started:
                call.abort()
            else:
                call.respond_error(ProxyError(500, "internal error of the proxy"))
            return UPSTREAM_ERROR

    async def _dispatch(self, call: Call, measure: Measure | None, request_id: bytes) -> str:
        request = call.request
        methods = surface.methods(request.path)
        if methods is None:
            raise ProxyError(404, "there is no such path here")
        if request.method not in methods:
            allow = b"allow: " + b", ".join(sorted(methods)) + b"\r\n"
            raise ProxyError(405, "this path is not served with this method", allow)
        if len(self._tasks) > self._in_flight:
            message = "too many requests are in flight; come again in a moment"
            raise self._admission.refuse("in_flight", message)
        raw, completion = self._read(call)
        asked = read_asked(request.headers, self._asked)
        load = measure is not None
        if measure is None:
            measure = Measure(self._discarded, self._context.now(), 0)
        job = Job(
            call=call,
            measure=measure,
            request_id=request_id,
            headers=to_engine(request.headers, keys=self._access is None),
            body=raw,
            completion=completion,
            patience=asked.patience,
        )
        if not load:
            return await self._dispatcher.run(job)
        ticket = self._admission.enter_at_once() or await self._wait(job, asked)
        try:
            measure.turn(ticket, self._context.now())
            return await self._dispatcher.run(job)
        finally:
            ticket.close()

    async def _wait(self, job: Job, asked: Asked) -> Ticket:
        """Wait for the request's turn."""
        claim = Claim(
            flow=self._flow(job.call),
            priority=asked.priority,
            tokens=cost(job.measure.size),
            prefill=self._dispatcher.wants_prefill(job.completion),
            patience=asked.patience,
        )
        return await self._admission.enter(claim)

    def _flow(self, call: Call) -> object:
        """Whose share a request counts to: who cannot be told apart by keys is by address."""
        request = call.request
        return request.tenant or find(request.headers, b"authorization") or call.peer

    def _read(self, call: Call) -> tuple[bytes, Completion | None]:
        request = call.request
        if request.method == b"POST" and request.path in (surface.COMPLETIONS, surface.CHAT):
            salt = self._salt(request)
            completion = bodies.completion(request.body, request.path == surface.CHAT, salt)
            return completion.raw, completion
        raw = request.body
        kind = find(request.headers, b"content-type") or b"application/json"
        if b"json" in kind.lower() and raw:
            salted = request.path in surface.SALTED
            raw = bodies.harmless(raw, self._salt(request) if salted else None)
        elif name := bodies.steering(raw):
            raise ProxyError(400, f"{name} is not the client's to set")
        return raw, None

    def _salt(self, request: Request) -> bodies.Salt | None:
        """How the request's cache salt is made, where tenants do not share one."""
        if self._access is None or not request.tenant:
            return None
        return partial(self._access.salt, request.tenant)

    def _request_id(self, call: Call) -> bytes:
        given = find(call.request.headers, b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix.encode(), next(self._numbers))
