"""What a run computes where Tile IR leaves the result open: the reference choice, or closer to hardware.

Tile IR does not fix the order of additions in a matrix product or a reduction, the accuracy of
approximations, or whether atomics preserve subnormal numbers. The reference machine makes one choice
each, by default the most exact; :class:`Arithmetic` names the others. They show how much a kernel's
results depend on what is left open. They are models: no GPU guarantees these bits.
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
    """The choices of a run. Without arguments: the reference.

    ``f32_products``
        What mmaf multiplies if its operands are f32. ``"f32"`` (default): the operands.
        ``"tf32"``: the operands rounded to tf32, ties away from zero, the conversion that NVIDIA's
        libraries and compilers apply before a tensor core product. ``"tf32-truncated"``: the operands
        without their low 13 bits, which is how a tensor core treats unconverted f32 operands. The
        products are then exact in f32. Operands of other types are never changed.
    ``accumulation``
        How mmaf and mmaf_scaled add. ``"blas"`` (default): like NumPy's dot and matmul, accumulator
        last; the order depends on the processor. The others yield the same bits everywhere.
        ``"ascending"``: products are added to the accumulator one by one in ascending k; each product
        and each sum is rounded to f32. ``"pairwise"``: the products of the two halves of K are added,
        repeatedly, until one sum is left, then the accumulator.
        ``"blocks:N"``: N products at a time are added to the accumulator in ascending k, with one
        rounding to f32 per block (sums inside a block are in f64), as tensor cores add several
        products at once. With f64 operands everything is in f64, and blocks equal ascending.
    ``reductions``
        The order in which reduce and scan combine. ``"ascending"`` (default): one element after
        another. ``"tree"``: reduce combines element i with element i + half of the extent,
        repeatedly; scan combines each prefix with the one that ends 1, 2, 4, ... elements before it.
        Identities are not used.
    ``approximations``
        The results of divf approx and full, sqrt approx, exp approx, tanh approx (f32), and rsqrt and
        exp2 (f32, and f16 and bf16 through f32). ``"exact"`` (default): the correctly rounded value.
        ``"hardware"``: a value with errors of the size that the instructions of NVIDIA GPUs have;
        see the functions of ``numerics.approximations``.
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
        """The N of ``blocks:N``, or None."""
        found = _BLOCKS.fullmatch(str(self.accumulation))
        return int(found[1]) if found else None

    @property
    def is_reference(self) -> bool:
        """Whether it computes as the reference machine does by default."""
        return self == REFERENCE

    @classmethod
    def parse(cls, text: str) -> Arithmetic:
        """Parse ``KEY=VALUE,...``; - and _ are equivalent in keys. Raises TileIRError if malformed.

        Keys are the fields; of a flag the value is true or false. An empty text, or what is not given, is the
        reference.
        """
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
        """Return the differences from the reference, as ``parse`` reads them, or ``reference``."""
        differing = [
            f"{field.name}={str(getattr(self, field.name)).lower()}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return ",".join(differing) or "reference"


def _bad(message: str) -> TileIRError:
    return TileIRError.single(BAD_ARITHMETIC, f"arithmetic: {message}")


REFERENCE = Arithmetic()
"""The meaning of Tile IR, as exact as it can be computed."""
