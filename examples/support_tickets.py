"""Route support tickets: free features first, a slow customer lookup only where it is needed.

Run it with ``python examples/support_tickets.py``; it needs the extra: ``pip install 'emsco[train]'``.
"""

from __future__ import annotations

import random
import tempfile

from emsco_runtime import Acquirers, Cascade
from emsco_train import CostGroup, CostModel, export_design

URGENT_WORDS = ("down", "urgent", "cannot", "broken", "asap")
# One lookup gives both, so they are a group: its cost counts once per ticket.
LOOKUP = CostGroup("lookup", 20.0, ("open_tickets", "plan"))
COSTS = CostModel.from_mapping(
    {"words": 0.01, "urgent_words": 0.01, "open_tickets": 0.0, "plan": 0.0}, groups=[LOOKUP], unit="ms"
)

Ticket = dict[str, object]


def make_tickets(count: int, seed: int) -> tuple[list[Ticket], list[str]]:
    """Make up tickets and the queues where a person would have sent them."""
    rng = random.Random(seed)
    tickets, queues = [], []
    for _ in range(count):
        urgent = rng.random() < 0.4
        text = rng.choices(URGENT_WORDS if urgent else ("how", "invoice", "please", "question"), k=rng.randint(1, 4))
        plan, open_tickets = rng.choice(["free", "team", "company"]), rng.randint(0, 6)
        score = 3.5 * urgent + (plan == "company") + 0.4 * open_tickets + rng.gauss(0, 0.3)
        tickets.append({"text": " ".join(text + ["hello"] * rng.randint(0, 9)), "plan": plan, "open_tickets": open_tickets})
        queues.append("now" if score > 2.9 else "later")
    return tickets, queues


acquirers = Acquirers()


@acquirers.features("words", "urgent_words")
def read(ticket: Ticket) -> dict[str, int]:
    """Cheap: the text is at hand."""
    words = str(ticket["text"]).split()
    return {"words": len(words), "urgent_words": sum(word in URGENT_WORDS for word in words)}


@acquirers.features("plan", "open_tickets", on_failure="reject")
def look_up(ticket: Ticket) -> dict[str, object]:
    """Expensive: in a real service this queries the customer database. Here the ticket has it."""
    return {"plan": ticket["plan"], "open_tickets": ticket["open_tickets"]}


def as_table(tickets: list[Ticket]) -> dict[str, list[object]]:
    """Acquire everything for every ticket: what training needs, and what production avoids."""
    rows = [{**read(ticket), **look_up(ticket)} for ticket in tickets]
    return {name: [row[name] for row in rows] for name in COSTS.features}


def main() -> None:
    """Train on some tickets, then route others."""
    train, held_out = make_tickets(1500, seed=1), make_tickets(500, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        export_design(
            folder,
            stages=[["words", "urgent_words"], ["plan", "open_tickets"]],
            X=as_table(train[0]),
            y=train[1],
            held_out=(as_table(held_out[0]), held_out[1]),
            costs=COSTS,
            threshold=0.9,
            name="tickets",
        )
        cascade = Cascade.load(folder, acquirers)
    decisions = cascade.decide_many(held_out[0])
    decided = [(decision, queue) for decision, queue in zip(decisions, held_out[1], strict=True) if decision.label]
    right = sum(decision.label == queue for decision, queue in decided)
    print(f"routed {len(decided)} of {len(decisions)} tickets, {right / len(decided):.1%} of them correctly")
    print(f"looked up {sum(decision.stages > 1 for decision in decisions)} customers instead of {len(decisions)}")
    everything = COSTS.meter().cost(COSTS.features)
    print(f"mean cost {sum(decision.cost for decision in decisions) / len(decisions):.2f} ms instead of {everything} ms")


if __name__ == "__main__":
    main()
