"""Approve orders: free features first; a slow risk service, by HTTP, only where it is needed, and never for long.

The service is real, in this file: a small HTTP server that takes 20 ms for an answer. The acquirer that asks it is async, and has
a timeout, a circuit breaker, a cache by customer, and a fallback. Run it with ``python examples/slow_lookup.py``; it needs the
extra: ``pip install 'emsco[train]'``.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from emsco_runtime import AcquirerCache, Acquirers, Cascade, CircuitBreaker, Decision
from emsco_train import CostModel, export_design

COSTS = CostModel.from_mapping({"amount": 0.01, "items": 0.01, "risk": 20.0}, unit="ms")
Order = dict[str, float]


def make_orders(count: int, seed: int) -> tuple[list[Order], list[str]]:
    """Make up orders of some hundred customers, and what an honest clerk would have done with them."""
    rng = random.Random(seed)
    orders, labels = [], []
    for _ in range(count):
        customer, amount, items = rng.randrange(300), rng.expovariate(1 / 80), rng.randint(1, 9)
        score = 0.03 * amount + 2.5 * risk_of(customer) - 0.2 * items + rng.gauss(0, 0.4)
        orders.append({"customer": customer, "amount": amount, "items": items})
        labels.append("check" if score > 2.2 else "approve")
    return orders, labels


def risk_of(customer: float) -> float:
    """Return what only the risk service knows."""
    return random.Random(customer).random()


class RiskService:
    """The slow source: an HTTP server on the loopback interface, which can be made to hang."""

    def __init__(self) -> None:
        self.requests = 0
        self.hangs = False
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request: ``GET /CUSTOMER``."""
        with closing(writer):
            customer = float((await reader.readline()).split()[1].strip(b"/"))
            self.requests += 1
            if self.hangs:
                await reader.read()  # until the client gives up
                return
            await asyncio.sleep(0.02)
            body = json.dumps({"risk": risk_of(customer)}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve meanwhile."""
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()


def make_acquirers(service: RiskService) -> Acquirers:
    """Return the acquirers: two that read the order, and one that asks the service."""
    acquirers = Acquirers()
    acquirers.feature("amount")(lambda order: order["amount"])
    acquirers.feature("items")(lambda order: order["items"])

    @acquirers.feature(
        "risk",
        timeout_s=1.0,  # then it is a failure
        breaker=CircuitBreaker(failures=3, pause_s=30.0),  # after three failures in a row it is not asked for a while
        cache=AcquirerCache(key=lambda order: order["customer"], ttl_s=600.0),  # one request per customer
        on_failure="default",  # a failure is replaced by the bundle's fallback, and the decision says so
    )
    async def risk(order: Order) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        # At its timeout the coroutine is cancelled, and the connection closed.
        with closing(writer):
            writer.write(f"GET /{order['customer']} HTTP/1.1\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            return float(json.loads(await reader.readexactly(length))["risk"])

    return acquirers


async def decide_all(cascade: Cascade, orders: list[Order], at_a_time: int) -> list[Decision]:
    """Decide orders as a web service would: some at the same time, each within its deadline."""
    turns = asyncio.Semaphore(at_a_time)

    async def decide(order: Order) -> Decision:
        async with turns:
            return await cascade.decide_async(order, deadline_s=10.0)

    return await asyncio.gather(*map(decide, orders))


async def main() -> None:
    """Train on orders whose risk is known, then decide others; then the risk service hangs."""
    (train, train_labels), (held_out, held_out_labels) = make_orders(1500, seed=1), make_orders(500, seed=2)
    service = RiskService()
    with tempfile.TemporaryDirectory() as folder:
        export_design(
            folder + "/orders",
            stages=[["amount", "items"], ["risk"]],
            X=as_table(train),
            y=train_labels,
            held_out=(as_table(held_out), held_out_labels),
            costs=COSTS,
            threshold=0.95,
        )
        orders, labels = make_orders(400, seed=3)
        async with service.running():
            cascade = Cascade.load(folder + "/orders", make_acquirers(service))
            decisions = await decide_all(cascade, orders, at_a_time=20)
            decided = [(decision, label) for decision, label in zip(decisions, labels, strict=True) if decision.accepted]
            right = sum(decision.label == label for decision, label in decided)
            looked_up = sum(decision.stages > 1 for decision in decisions)
            print(f"decided {len(decided)} of {len(orders)} orders, {right / len(decided):.1%} of them correctly")
            print(f"needed the risk of {looked_up} orders, and asked for it {service.requests} times: the cache knew the others")

            service.hangs = True
            asked = service.requests
            # Customers that the cache does not know.
            new_customers = [{**order, "customer": order["customer"] + 1000} for order in orders]
            decisions = await decide_all(cascade, new_customers, at_a_time=1)
            degraded = sum(decision.degraded for decision in decisions)
            print(f"it hangs: {len(decisions)} of {len(orders)} orders got an answer, {degraded} by a fallback")
            print(f"it was asked {service.requests - asked} times, then the breaker was open")


def as_table(orders: list[Order]) -> dict[str, list[float]]:
    """Return every feature of every order: training needs them all."""
    rows = [{**order, "risk": risk_of(order["customer"])} for order in orders]
    return {name: [row[name] for row in rows] for name in COSTS.features}


if __name__ == "__main__":
    asyncio.run(main())
