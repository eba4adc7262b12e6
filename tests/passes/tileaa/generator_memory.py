"""Random programs of ``nv_tileaa`` that do little but read and write a few places, in order.

A kernel takes ``%p`` and ``%q``, which may overlap, of ``WORDS`` f32 each. Scalars, runs of pointers
and tiles of views are loaded and stored, in up to two nested loops; one chain of tokens orders all.
"""

from __future__ import annotations

import random

WORDS = 16
_PTR = "!nv_tileaa.ptr<f32, 1>"
_TOKEN = "!nv_tileaa.mem_token"
_MEMREF = "!nv_tileaa.memref<8xf32, strides = [1], 1>"
_VIEW = f"!nv_tileaa.tiled_view<4xf32, source = {_MEMREF}>"
_RUN = f"tile<4x{_PTR}>"


class MemoryProgram:
    """Writes one program."""

    def __init__(self, seed: int):
        self._rng = random.Random(seed)
        self._lines: list[str] = []
        self._names = 0
        self._token = "%t"
        self._values: dict[str, list[str]] = {"f32": ["%one"], "tile<4xf32>": ["%ones"]}
        self._indices = ["%c0", "%c1", "%c2"]
        self._pointers = ["%p", "%q"]

    def text(self) -> str:
        self._block(depth=0)
        body = "\n".join(self._lines)
        numbers = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(4))
        return (
            f"module {{\nnv_tileaa.func @k(%p: {_PTR}, %q: {_PTR}) attributes {{kernel}} {{\n{numbers}\n"
            "%one = arith.constant 1.0 : f32\n%ones = arith.constant dense<1.5> : tile<4xf32>\n"
            "%lanes = nv_tileaa.make_range {start = 0, end = 4} : tile<4xindex>\n"
            f"%t = nv_tileaa.create_mem_token : {_TOKEN}\n{body}\nnv_tileaa.return\n}}\n}}\n"
        )

    def _put(self, line: str) -> None:
        self._lines.append(line)

    def _name(self) -> str:
        self._names += 1
        return f"%n{self._names}"

    def _block(self, depth: int) -> None:
        for _ in range(self._rng.randrange(4, 9)):
            kinds = [self._scalar, self._scalar, self._run, self._tile, self._tile, self._pointer]
            if depth < 2 and self._rng.random() < 0.15:
                self._loop(depth)
            else:
                self._rng.choice(kinds)()

    def _pointer(self) -> None:
        """A pointer further on; all of them together lead at most 8 words from the start."""
        name = self._name()
        base, step = self._rng.choice(("%p", "%q")), self._rng.choice(self._indices)
        self._put(f"{name} = nv_tileaa.addptr {base}, {step} : {_PTR}, index -> {_PTR}")
        self._pointers.append(name)

    def _access(self, kind: str, place: str, base_types: str, ty: str, indexed: str = "") -> None:
        """A load, or a store of a value that depends on one loaded before."""
        token = self._name()
        if self._rng.random() < 0.5:
            value = self._name()
            self._put(
                f"{value}, {token} = nv_tileaa.{kind}load {place}, {self._token} "
                f": {base_types}{indexed}, {_TOKEN} -> {ty}, {_TOKEN}"
            )
            self._values[ty].append(value)
        else:
            known = self._values[ty]
            value, total = self._rng.choice(known), self._name()
            other = "%one" if ty == "f32" else "%ones"
            self._put(f"{total} = nv_tileaa.addf {value}, {other} : {ty}")
            self._put(
                f"{token} = nv_tileaa.{kind}store {place}, {total}, {self._token} "
                f": {base_types}, {ty}{indexed}, {_TOKEN} -> {_TOKEN}"
            )
        self._token = token

    def _scalar(self) -> None:
        self._access("", self._rng.choice(self._pointers), _PTR, "f32")

    def _run(self) -> None:
        name = self._name()
        base = self._rng.choice(self._pointers)
        self._put(f"{name} = nv_tileaa.addptr {base}, %lanes : {_PTR}, tile<4xindex> -> {_RUN}")
        self._access("", name, _RUN, "tile<4xf32>")

    def _tile(self) -> None:
        """A tile of a view, which two accesses in a row may share."""
        memref, view = self._name(), self._name()
        base = self._rng.choice(self._pointers)
        self._put(f"{memref} = nv_tileaa.make_memref {base} : ({_PTR}) -> {_MEMREF}")
        self._put(
            f"{view} = nv_tileaa.block_tile {memref} "
            f"{{tileSizes = array<i64: 4>, dimGroups = [[0]]}} : {_MEMREF} -> {_VIEW}"
        )
        for _ in range(self._rng.randrange(1, 4)):
            index = self._rng.choice(("%c0", "%c1"))
            self._access("tiled_", f"{view}[{index}]", _VIEW, "tile<4xf32>", ", index")

    def _loop(self, depth: int) -> None:
        counter, carried, after = self._name(), self._name(), self._name()
        end = self._rng.choice(("%c2", "%c3"))
        self._put(
            f"{after} = scf.for {counter} = %c0 to {end} step %c1 "
            f"iter_args({carried} = {self._token}) -> ({_TOKEN}) {{"
        )
        outside = ({ty: list(v) for ty, v in self._values.items()}, list(self._pointers))
        self._indices.append(counter)
        self._token = carried
        self._block(depth + 1)
        self._put(f"scf.yield {self._token} : {_TOKEN}\n}}")
        self._indices.remove(counter)
        self._values, self._pointers = outside
        self._token = after


def memory_program(seed: int) -> str:
    return MemoryProgram(seed).text()
