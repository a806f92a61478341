"""Which engines get a request: knowledge of prompts and of load, joined for each choice."""

import random
from collections.abc import Callable, Collection, Sequence
from itertools import count
from operator import attrgetter
from typing import Final

from pd_proxy.backends import READY, Backend, Backends
from pd_proxy.routing import cost
from pd_proxy.routing.homes import Homes
from pd_proxy.routing.prefixes import Prefixes
from pd_proxy.routing.prompt import NO_PROMPT, Prompt

_turns: Final = count(1)
_turn: Final = attrgetter("turn")
_number: Final = attrgetter("number")
_in_flight: Final = attrgetter("in_flight")


class Chooser:
    """Chooses among the ready backends; one for the whole proxy.

    `ticket` gives a large number at random: what decides where nothing is known.
    """

    def __init__(
        self, backends: Backends, ticket: Callable[[], int] = lambda: random.getrandbits(40)
    ) -> None:
        self._backends = backends
        self._ticket = ticket
        self._prefixes = Prefixes[Backend]()
        self._decoded = Prefixes[Backend]()
        self._prefill_homes = Homes[Backend](_number)
        self._decode_homes = Homes[Backend](_number)
        backends.on_gone.append(self._prefixes.forget)
        backends.on_gone.append(self._decoded.forget)
        backends.on_restart.append(self._prefixes.forget)

    @property
    def choice(self) -> bool:
        """Whether there is more than one pair to choose from."""
        return len(self._backends.decoders) > 1 or any(
            len(found) > 1 for found in self._backends.prefillers.values()
        )

    def sent(self, prefiller: Backend, prompt: Prompt) -> None:
        """The prefiller computes this prompt."""
        if prompt.blocks:
            self._prefixes.learn(prefiller, prompt.blocks)

    def answered_by(self, decoder: Backend, prompt: Prompt) -> None:
        """The decoder has this prompt's KV cache from now on."""
        if prompt.blocks:
            self._decoded.learn(decoder, prompt.blocks)

    def left(self, backend: Backend, prompt: Prompt) -> int:
        """Bytes of the prompt that are not cached at a prefiller or a decoder."""
        table = self._prefixes if backend.prefills else self._decoded
        return prompt.size - table.had(backend, prompt.blocks)

    def pair(
        self, prompt: Prompt, tried: Collection[Backend], now: float
    ) -> tuple[Backend | None, Backend | None]:
        """A prefiller and a decoder of one pairing, or an engine that needs no prefiller.

        A decoder that lacks its prefiller only where there is nothing else.
        """
        backends = self._backends
        groups: list[Sequence[Backend]] = [
            decoders
            for pairing, decoders in backends.paired.items()
            if any(not p.hopeless(now) for p in backends.prefillers.get(pairing, ()))
        ]
        if backends.whole:
            groups.append(backends.whole)
        if not groups:
            return None, self.decoder(backends.decoders, prompt, tried, now)
        complete = groups[0] if len(groups) == 1 else [d for group in groups for d in group]
        decoder = self.decoder(complete, prompt, tried, now)
        if decoder is None or decoder.whole:
            return None, decoder
        return self._prefiller(
            backends.prefillers[decoder.pod.pairing], prompt, tried, now
        ), decoder

    def alone(self, prompt: Prompt, tried: Collection[Backend], now: float) -> Backend | None:
        """A decoder without a prefiller: one that needs none, where there is any."""
        whole = [d for d in self._backends.whole if _fresh(d, tried, now)]
        return self.decoder(whole or self._backends.decoders, prompt, tried, now)

    def any_decoder(self, tried: Collection[Backend], now: float) -> Backend | None:
        """A decoder for a request without a prompt that is known."""
        return self.decoder(self._backends.decoders, NO_PROMPT, tried, now)

    def decoder(
        self, decoders: Sequence[Backend], prompt: Prompt, tried: Collection[Backend], now: float
    ) -> Backend | None:
        """The less loaded of two at random and, where it has no more than they, the home."""
        if len(decoders) == 1:
            return decoders[0]
        candidates = sorted(cost.two(decoders, self._ticket()), key=_turn)
        if prompt.key is not None and decoders:
            candidates.insert(0, self._decode_homes.of(prompt.key, decoders)[0])
        fresh = [d for d in candidates if _fresh(d, tried, now)]
        return _chosen(cost.decoder(fresh) or _least(decoders, tried, now))

    def _prefiller(
        self, prefillers: Sequence[Backend], prompt: Prompt, tried: Collection[Backend], now: float
    ) -> Backend | None:
        number = len(prefillers)
        if number == 1:
            return prefillers[0]
        pairing = prefillers[0].pod.pairing
        homes: Sequence[Backend] = ()
        if prompt.key is not None:
            homes = self._prefill_homes.of(prompt.key, prefillers)
        best = cost.prefiller(
            prompt.size,
            cost.bound(sum(map(_in_flight, prefillers)), number),
            matches=[
                (backend, had)
                for backend, had in self._prefixes.matches(prompt.blocks)
                if backend.pod.state == READY
                and backend.pod.pairing == pairing
                and _fresh(backend, tried, now)
            ],
            homes=[home for home in homes if _fresh(home, tried, now)],
            shared=prompt.shared,
            others=sorted(
                (b for b in cost.two(prefillers, self._ticket()) if _fresh(b, tried, now)),
                key=_turn,
            ),
        )
        return _chosen(best or _least(prefillers, tried, now))


def _fresh(backend: Backend, tried: Collection[Backend], now: float) -> bool:
    return backend.suspect_until <= now and backend not in tried


def _least(backends: Sequence[Backend], tried: Collection[Backend], now: float) -> Backend | None:
    """The one with the least in flight; a tried or suspect one only where there is no other."""
    fresh = [b for b in backends if _fresh(b, tried, now)]
    candidates = fresh or [b for b in backends if b not in tried] or backends
    return min(candidates, key=lambda backend: (backend.in_flight, backend.turn), default=None)


def _chosen(backend: Backend | None) -> Backend | None:
    if backend is not None:
        backend.turn = next(_turns)
    return backend
