"""The laws of the house: imports point down, files stay reviewable, imports stay cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tilewright"

#: Floors from the ground up; a room may import rooms of lower floors, and itself.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"diagnostics"}),
    frozenset({"numerics", "layouts", "model", "campaign"}),
    frozenset({"dialects"}),
    frozenset({"text", "bytecode", "analysis"}),
    frozenset({"builder", "passes"}),
    frozenset({"lowering"}),
    frozenset({"launching"}),
    frozenset({"machine", "cpu", "simulator", "gpu"}),
    frozenset({"explain"}),
    frozenset({"profiling"}),
    frozenset({"tuning"}),
    frozenset({"cutile"}),
    frozenset({"pytest"}),
    frozenset({"cli", "universe"}),
    frozenset({"__main__"}),
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
#: The package itself: its version, and lazy names that lead to any room.
ROOT = {"__init__"}

MAX_LINES = 900


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tilewright" and len(parts) > 1:
                rooms.add(parts[1])
    return rooms


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.name))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    if room in ROOT:
        return
    assert room in LEVEL, f"{room} stands on no floor"
    for other in imported_rooms(path) - {room}:
        assert LEVEL[other] < LEVEL[room], (
            f"{path.relative_to(SOURCE)} imports {other}, which is not below {room}"
        )


def test_files_stay_reviewable() -> None:
    long = {
        str(path.relative_to(SOURCE)): count
        for path in SOURCE.rglob("*.py")
        if (count := path.read_text(encoding="utf-8").count("\n")) > MAX_LINES
    }
    assert not long


def test_import_loads_nothing_heavy() -> None:
    program = (
        "import sys, tilewright\n"
        "heavy = {'numpy', 'xdsl', 'llvmlite', 'rich', 'cuda', 'ml_dtypes'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_public_names_exist() -> None:
    import tilewright

    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tilewright.nothing
