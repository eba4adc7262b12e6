"""What is said when the agents of a tile block wait for one another."""

from __future__ import annotations

from collections.abc import Sequence


def deadlock_message(waits: Sequence[tuple[str, str]]) -> str:
    """What everybody waits for: names of agents, and what each of them waits for."""
    listed = "; ".join(f"{name} waits for {what}" for name, what in waits)
    return f"nothing in the tile block can go on: {listed}"


def waits_here(name: str) -> str:
    """The note at the place where an agent waits."""
    return f"{name} waits here"
