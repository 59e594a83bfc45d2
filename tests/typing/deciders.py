"""Checked by mypy (`make lint`), never run: whatever decides can be handed to a service that asks for a `Decider`."""

from __future__ import annotations

from emsco_runtime import Acquirers, Cascade, Decider, Decision, ReloadingCascade


async def service(decider: Decider) -> list[Decision]:
    """Use all that a `Decider` has."""
    async with decider as open_one:
        one = open_one.decide({}, key="a", budget=1.0, deadline_s=1.0, known={})
        another = await open_one.decide_async({}, key="a")
        many = open_one.decide_many([{}], keys=["a"])
        more = await open_one.decide_many_async([{}], keys=[None], concurrency=1)
    with decider as same:
        same.decide_columns({}, budget=1.0)
    return [one, another, *many, *more]


async def main(acquirers: Acquirers) -> None:
    """Hand in both."""
    await service(Cascade.load("bundle", acquirers.override("size", len) | acquirers))
    await service(ReloadingCascade("bundle", acquirers, period_s=10))
    plain: Cascade = Cascade.load("bundle").__enter__()
    reloading: ReloadingCascade = ReloadingCascade("bundle").__enter__()
    await service(plain)
    await service(reloading)
