"""Messages about a deadlock between the agents of a tile block."""

from __future__ import annotations

from collections.abc import Sequence


def deadlock_message(waits: Sequence[tuple[str, str]]) -> str:
    """The message of a deadlock. ``waits``: (agent, what it waits for) of each waiting agent."""
    listed = "; ".join(f"{name} waits for {what}" for name, what in waits)
    return f"deadlock in the tile block: {listed}"


def waits_here(name: str) -> str:
    """The note at the operation at which an agent waits."""
    return f"{name} waits here"
