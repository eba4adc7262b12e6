"""The table of docs/cutile-api.md, from what the kernels of this package and of the corpus use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.cutile.api._cases import SIMULATOR, all_cases
from tests.cutile.api.features import users_of_features
from tests.cutile.api.host import ANNOTATIONS, PROGRAMS
from tests.cutile.api.reference import in_kernels, on_the_host

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cutile-api.md"
#: Machines that every name is used on; the simulator lacks a few.
MACHINES = ("reference", "cpu")
_COLUMNS = (*MACHINES, SIMULATOR)
_SHOWN = 3

#: Names that no kernel and no program here uses, and why.
NOT_USED: Mapping[str, str] = {
    "MemoryScope.CLUSTER": "for `cuda.lang` only; cuTile refuses it in tile code",
    "RoundingMode.RZI": "no function of cuTile takes it; conversions to integers always round so",
    "Tile.__rmatmul__": "cuTile has no matrix product of a number and a tile",
    "TileInternalError": "a bug of cuTile's own",
    "TileCompilerTimeoutError": "its compiler, which has the time limit, is not run",
}
#: Parts of cuTile outside of this reference that need a GPU.
REFUSED: Mapping[str, str] = {
    "NVSHMEM, multimem and other foreign calls": (
        "code that is not Tile IR, most of it for several GPUs; no public function of `cuda-tile` "
        "1.7 makes one"
    ),
    "`cuda.tile.jax`": "XLA calls the kernel on a GPU, through cuTile's own extension",
    "CUDA graphs": "they record work of a GPU",
    "`cuda.lang`, `launch_extended`": "kernels of threads, not of tiles",
}


@cache
def uses() -> dict[str, dict[str, list[str]]]:
    """The cases and programs that use each name, by the machine that runs them."""
    found: dict[str, dict[str, list[str]]] = {}

    def note(name: str, by: str, machines: tuple[str, ...]) -> None:
        for machine in machines:
            found.setdefault(name, {}).setdefault(machine, []).append(by)

    for case in all_cases():
        machines = tuple(machine for machine in _COLUMNS if machine not in case.refused)
        for name in sorted(case.used()):
            note(name, case.name, machines)
        for name, by in ANNOTATIONS.items():
            if by == case.name:
                note(name, by, machines)
    for program in PROGRAMS:
        for name in sorted(program.names):
            note(name, program.run.__name__, MACHINES)
    return found


def groups() -> dict[str, tuple[str, ...]]:
    """All names, by the title they stand under."""
    inside = {kind.capitalize(): names for kind, names in in_kernels().items()}
    return inside | {"On the host": on_the_host()}


def _rows(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        users = uses().get(name, {})
        if not users:
            yield f"| `{name}` | - | - | - | {NOT_USED.get(name, 'MISSING')} |"
            continue
        marks = [f"{len(users[m])}" if m in users else "-" for m in _COLUMNS]
        by = users[MACHINES[0]] if MACHINES[0] in users else users[MACHINES[1]]
        yield f"| `{name}` | {' | '.join(marks)} | {_shown(by)} |"


def _shown(users: list[str]) -> str:
    return ", ".join(users[:_SHOWN]) + (", ..." if len(users) > _SHOWN else "")


def document() -> str:
    """The text of the document."""
    counts = {title: len(names) for title, names in groups().items()}
    used = {title: sum(n in uses() for n in names) for title, names in groups().items()}
    lines = [
        "# cuTile's interface through Tilewright",
        "",
        "Every public name of `cuda-tile` 1.7, with the number of our own kernels and programs that "
        "use it on each",
        "machine and the first of them. Each computes what a NumPy reference says, to the bit where "
        "that is defined;",
        "`tests/cutile/api` holds them. What a kernel uses is recorded while cuTile compiles it. "
        "This file is written by",
        "`pytest tests/cutile/api/test_reference.py --bless`; a test fails where it is out of date "
        "or a name is missing.",
        "",
        "| | names | used |",
        "|---|---|---|",
        *(f"| {title} | {counts[title]} | {used[title]} |" for title in counts),
        f"| all | {sum(counts.values())} | {sum(used.values())} |",
        "",
        "A parameter counts as used where a kernel gives it another value than its default.",
    ]
    for title, names in groups().items():
        head = f"| | {' | '.join(_COLUMNS)} | used by |"
        lines += ["", f"## {title}", "", head, "|---|---|---|---|---|", *_rows(names)]
    lines += ["", "## The language of kernels", "", "| | used by |", "|---|---|"]
    lines += [f"| {what} | {_shown(by)} |" for what, by in users_of_features().items()]
    lines += ["", "## Refused", "", "| | |", "|---|---|"]
    lines += [f"| {what} | {why} |" for what, why in REFUSED.items()]
    return "\n".join(lines) + "\n"
