"""What a run computes where Tile IR leaves the result open: the reference, or nearer to hardware.

Tile IR fixes neither the order of the additions in a matrix product or a reduction, nor how exact
an approximation is, nor whether atomics keep subnormal numbers. The reference machine makes one
choice each, by default the most exact; :class:`Arithmetic` names the others. They show how far a
kernel's results depend on what is left open. They are models: no GPU promises these bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from tilewright.diagnostics import TileIRError, define_code

BAD_ARITHMETIC = define_code(
    "bad-arithmetic",
    "An option of the arithmetic of a run does not exist or has no such value.",
    "f32_products: f32, tf32 or tf32-truncated; accumulation: blas, ascending, pairwise or "
    "blocks:N; reductions: ascending or tree; approximations: exact or hardware; "
    "flush_denormal_addf: true or false.",
)

_BLOCKS = re.compile(r"blocks:([1-9][0-9]{0,8})")

_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "f32_products": ("f32", "tf32", "tf32-truncated"),
        "accumulation": ("blas", "ascending", "pairwise"),
        "reductions": ("ascending", "tree"),
        "approximations": ("exact", "hardware"),
    }
)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The choices of a run; without arguments, the reference.

    ``f32_products``
        What mmaf multiplies where its operands are f32. ``"f32"`` (default): the operands.
        ``"tf32"``: the operands rounded to tf32, ties away from zero, which is the conversion that
        NVIDIA's libraries and compilers apply before a tensor core product. ``"tf32-truncated"``:
        the operands without their low 13 bits, which is what a tensor core does that gets f32 as
        it is. The products are then exact in f32. Operands of other types are never changed.
    ``accumulation``
        How mmaf and mmaf_scaled add. ``"blas"`` (default): as NumPy's dot and matmul, the accumulator last;
        the order depends on the processor. The others give the same bits everywhere.
        ``"ascending"``: to the accumulator, one product after the other by ascending k, each
        product and each sum rounded to f32. ``"pairwise"``: the products of the two halves of K
        are added, again and again until one sum is left, then the accumulator.
        ``"blocks:N"``: to the accumulator, N products at a time by ascending k, with one rounding
        to f32 for each block (sums inside a block are in f64), as tensor cores add several
        products at once. f64 operands: all of it in f64, where blocks are the same as ascending.
    ``reductions``
        The order in which reduce and scan combine. ``"ascending"`` (default): one element after
        the other. ``"tree"``: reduce combines element i with element i + half of the extent, again
        and again; scan combines each prefix with the one that ends 1, 2, 4, ... elements before it.
        Identities take no part.
    ``approximations``
        What divf approx and full, sqrt approx, exp approx, tanh approx (f32) and rsqrt and exp2
        (f32, and f16 and bf16 through f32) give. ``"exact"`` (default): the correctly rounded
        value. ``"hardware"``: a value with errors of the size that the instructions of NVIDIA GPUs
        have; the functions of ``numerics.approximations`` say which.
    ``flush_denormal_addf``
        Whether float additions by atomics on f32 treat subnormal inputs and results as zeros of
        the same sign. False by default.
    """

    f32_products: str = "f32"
    accumulation: str = "blas"
    reductions: str = "ascending"
    approximations: str = "exact"
    flush_denormal_addf: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value in allowed or (name == "accumulation" and self.block_size is not None):
                continue
            more = ", blocks:N" if name == "accumulation" else ""
            raise _bad(f"{name} is one of {', '.join(allowed)}{more}, not {value!r}")
        if not isinstance(self.flush_denormal_addf, bool):
            raise _bad(f"flush_denormal_addf is true or false, not {self.flush_denormal_addf!r}")

    @property
    def block_size(self) -> int | None:
        """The N of ``blocks:N``."""
        found = _BLOCKS.fullmatch(str(self.accumulation))
        return int(found[1]) if found else None

    @property
    def is_reference(self) -> bool:
        """Whether it computes as the reference machine does by default."""
        return self == REFERENCE

    @classmethod
    def parse(cls, text: str) -> Arithmetic:
        """The arithmetic of ``KEY=VALUE,...``; - and _ are the same in keys. TileIRError if bad."""
        readers: dict[str, Callable[[str], str | bool]] = {f.name: str for f in fields(cls)}
        readers["flush_denormal_addf"] = lambda value: _BOOLEANS.get(value, value)
        chosen: dict[str, str | bool] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = part.partition("=")
            name = key.strip().replace("-", "_")
            if name not in readers:
                raise _bad(f"there is no option '{key.strip()}'; options: {', '.join(readers)}")
            if name in chosen:
                raise _bad(f"the option '{name}' is given twice")
            chosen[name] = readers[name](value.strip() if equals else "")
        return cls(**chosen)  # pyright: ignore[reportArgumentType]

    def __str__(self) -> str:
        """What differs from the reference, as ``parse`` reads it; ``reference`` if nothing does."""
        differing = [
            f"{field.name}={str(getattr(self, field.name)).lower()}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return ",".join(differing) or "reference"


def _bad(message: str) -> TileIRError:
    return TileIRError.single(BAD_ARITHMETIC, f"arithmetic: {message}")


REFERENCE = Arithmetic()
"""What Tile IR means, as exactly as it can be computed."""
