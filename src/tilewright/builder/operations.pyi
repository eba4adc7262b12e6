"""Written by stub.py from the operations; see there."""

from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any, Literal, SupportsFloat, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile.attributes import AssumePredicateAttr
from tilewright.dialects.cuda_tile.base import TileOp

_Operand: TypeAlias = Value | SSAValue | SupportsFloat | np.ndarray[Any, Any]
_Hints: TypeAlias = Mapping[str, Mapping[str, int | bool]]
_Type: TypeAlias = Attribute | str

OPERATIONS: dict[str, type[TileOp]]
PYTHON_WORDS: frozenset[str]
WEAK_BY_DEFAULT: frozenset[str]
SEGMENTS: str

def method_name(mnemonic: str) -> str: ...
def python_name(name: str) -> str: ...
def parameters_of(cls: type[TileOp]) -> list[Parameter]: ...
def document(cls: type[TileOp]) -> str: ...

class Operations:
    def op(self, mnemonic: str, *operands: Any, **fields: Any) -> Any: ...
    def atomic_cas_tko(
        self,
        pointers: _Operand,
        cmp: _Operand,
        val: _Operand,
        mask: _Operand | None = None,
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"],
        memory_scope: Literal["tl_blk", "device", "sys"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value]:
        """Through each pointer, atomically: writes ``val`` if the memory equals ``cmp`` bit for bit."""
    def atomic_rmw_tko(
        self,
        pointers: _Operand,
        arg: _Operand,
        mask: _Operand | None = None,
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"],
        memory_scope: Literal["tl_blk", "device", "sys"],
        mode: Literal["and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value]:
        """Through each pointer, atomically: combines the memory with ``arg``; gives the old value."""
    def atomic_red_view_tko(
        self,
        view: _Operand,
        index: Sequence[_Operand],
        value: _Operand,
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"],
        memory_scope: Literal["tl_blk", "device", "sys"],
        mode: Literal["and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"],
        inbounds: Sequence[bool] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Combines each element of a tile into the memory of a view, atomically; gives no values."""
    def assert_(
        self,
        condition: _Operand,
        *,
        message: str,
    ) -> Operation:
        """Reports each false element of the condition with the message; the kernel may go on."""
    def return_(
        self,
        operands_: Sequence[_Operand] = (),
    ) -> Operation:
        """Ends the tile block."""
    def yield_(
        self,
        operands_: Sequence[_Operand] = (),
    ) -> Operation:
        """Ends a region of if, reduce or scan; the operands become its results."""
    def bitcast(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The same bits read as another element type of equal width."""
    def exti(
        self,
        from_: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Extends integers to a wider type: with copies of the sign, or with zeros."""
    def trunci(
        self,
        from_: _Operand,
        *,
        overflow: Literal["none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"] | None = None,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Keeps the low bits of integers."""
    def ftof(
        self,
        from_: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Converts between float types, rounded once in the given mode."""
    def ftoi(
        self,
        from_: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        saturating: bool | None = None,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Truncates floats to integers."""
    def itof(
        self,
        from_: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Converts integers to floats, rounded to nearest even."""
    def int_to_ptr(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Addresses from 64-bit unsigned integers."""
    def ptr_to_int(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Addresses as 64-bit unsigned integers."""
    def ptr_to_ptr(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The same addresses, for elements of another type."""
    def broadcast(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Repeats the elements along dimensions of extent 1; the rank stays."""
    def cat(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        dim: int,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Joins two tiles along dimension ``dim``; the other extents are equal."""
    def extract(
        self,
        source: _Operand,
        indices: Sequence[_Operand] = (),
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The sub-tile at a position in the grid of sub-tiles that the source divides into."""
    def insert(
        self,
        source: _Operand,
        destination: _Operand,
        indices: Sequence[_Operand] = (),
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The destination with one sub-tile replaced by the source; the inverse of extract."""
    def get_global(
        self,
        *,
        name: str,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The address of the first element of a global."""
    def get_num_tile_blocks(
        self,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value, Value]:
        """The extents of the grid along x, y and z, each at least 1."""
    def get_tile_block_id(
        self,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value, Value]:
        """The coordinates of this tile block in the grid, from 0."""
    def iota(
        self,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """0, 1, 2, ... up to the extent less 1, read unsigned."""
    def offset(
        self,
        ptr: _Operand,
        offset: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Each address moved by ``offset`` elements of its pointee; offsets are read signed."""
    def pack(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The bytes of a 1-d tile, little-endian; elements below a byte fill it from the low bits."""
    def unpack(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Elements read from the bytes of a 1-d tile; the inverse of pack."""
    def permute(
        self,
        source: _Operand,
        *,
        permutation: Sequence[int],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Reorders dimensions: result extent i is source extent permutation[i]."""
    def reshape(
        self,
        source: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The same elements in row-major order under another shape."""
    def select(
        self,
        cond: _Operand,
        val_if_true: _Operand,
        val_if_false: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Element by element: val_if_true where cond is true, else val_if_false."""
    def absf(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """|source|: clears the sign bit of each element."""
    def addf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs + rhs, element by element, rounded once."""
    def subf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs - rhs, element by element, rounded once."""
    def mulf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs * rhs, element by element, rounded once."""
    def divf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs / rhs. approx and full (f32) are within 2 ulp instead of correctly rounded."""
    def remf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs - trunc(lhs / rhs) * rhs, exact; the sign follows lhs. NaN where rhs is 0."""
    def fma(
        self,
        lhs: _Operand,
        rhs: _Operand,
        acc: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs * rhs + acc with a single rounding."""
    def sqrt(
        self,
        source: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Square root; NaN for negative elements, -0 for -0. approx (f32) is not correctly rounded."""
    def exp(
        self,
        source: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """e to the power of each element; f16 and bf16 are computed in f32 and rounded once."""
    def tanh(
        self,
        source: _Operand,
        *,
        rounding_mode: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Hyperbolic tangent; full is within 2 ulp in f32 and 1 ulp in f64."""
    def exp2(
        self,
        source: _Operand,
        *,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """2 to the power of each element; f16 and bf16 are computed in f32 and rounded once."""
    def rsqrt(
        self,
        source: _Operand,
        *,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """1 / sqrt(source), approximate; infinite with the sign of a zero, NaN for negatives."""
    def maxf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        propagate_nan: bool | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The larger element; +0 counts as larger than -0."""
    def minf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        propagate_nan: bool | None = None,
        flush_to_zero: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The smaller element; -0 counts as smaller than +0. NaNs as for maxf."""
    def ceil(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The smallest integral value not below each element; keeps the sign of zero."""
    def floor(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The largest integral value not above each element; keeps the sign of zero."""
    def negf(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Flips the sign bit of each element, of NaNs too."""
    def cos(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Cosine (radians); f16 and bf16 are computed in f32 and rounded once."""
    def sin(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Sine (radians); f16 and bf16 are computed in f32 and rounded once."""
    def tan(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Tangent (radians); f16 and bf16 are computed in f32 and rounded once."""
    def cosh(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Hyperbolic cosine; f16 and bf16 are computed in f32 and rounded once."""
    def sinh(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Hyperbolic sine; f16 and bf16 are computed in f32 and rounded once."""
    def log(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Natural logarithm: -inf for zeros, NaN for negatives."""
    def log2(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Logarithm to base 2: -inf for zeros, NaN for negatives."""
    def fpowf(
        self,
        source: _Operand,
        exponent: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """source to the power of exponent, with the special values of C99's pow."""
    def fpowi(
        self,
        source: _Operand,
        exponent: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """source to the power of an integer, always read as signed; 1 for exponent 0."""
    def atan2(
        self,
        x: _Operand,
        y: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The angle of the ratio x / y, in (-pi, pi], its quadrant from the signs of both."""
    def cmpf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        comparison_predicate: Literal["equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"],
        comparison_ordering: Literal["unordered", "ordered"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Compares element by element."""
    def addi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        overflow: Literal["none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs + rhs modulo 2**width."""
    def subi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        overflow: Literal["none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs - rhs modulo 2**width."""
    def muli(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        overflow: Literal["none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs * rhs modulo 2**width."""
    def shli(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        overflow: Literal["none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs shifted left by rhs bits, zeros coming in; rhs is read unsigned."""
    def maxi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The larger element in the reading given by signedness."""
    def mini(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The smaller element in the reading given by signedness."""
    def remi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs - trunc(lhs / rhs) * rhs; the sign follows lhs."""
    def shri(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs shifted right by rhs bits; signed fills with the sign, unsigned with zeros."""
    def andi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Bitwise and."""
    def ori(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Bitwise or."""
    def xori(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Bitwise exclusive or."""
    def mulhii(
        self,
        x: _Operand,
        y: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The high half of the unsigned 2*width-bit product of x and y."""
    def divi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        signedness: Literal["unsigned", "signed"],
        rounding: Literal["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs / rhs rounded to an integer: to zero by default, down or up on demand."""
    def absi(
        self,
        source: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """|source|, reading source signed and the result unsigned, so that it always fits."""
    def negi(
        self,
        source: _Operand,
        *,
        overflow: Literal["none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """-source modulo 2**width."""
    def cmpi(
        self,
        lhs: _Operand,
        rhs: _Operand,
        *,
        comparison_predicate: Literal["equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"],
        signedness: Literal["unsigned", "signed"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Compares element by element, in the reading given by signedness."""
    def mmaf(
        self,
        lhs: _Operand,
        rhs: _Operand,
        acc: _Operand,
        *,
        fast_acc: bool | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs x rhs + acc: result[i, j] = acc[i, j] + sum over k of lhs[i, k] * rhs[k, j]."""
    def mmai(
        self,
        lhs: _Operand,
        rhs: _Operand,
        acc: _Operand,
        *,
        signedness_lhs: Literal["unsigned", "signed"],
        signedness_rhs: Literal["unsigned", "signed"],
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """lhs x rhs + acc of 8-bit integers, modulo 2**32; each operand is signed or unsigned."""
    def mmaf_scaled(
        self,
        lhs: _Operand,
        rhs: _Operand,
        acc: _Operand,
        lhs_scale: _Operand,
        rhs_scale: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """mmaf on lhs[i, k] * lhs_scale[i, k / V] and rhs[k, j] * rhs_scale[k / V, j]."""
    def alloca(
        self,
        *,
        num_elem: int,
        alignment: int,
        global_: bool | None = None,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Fresh memory for ``num_elem`` elements, until the enclosing block ends; contents undefined."""
    def join_tokens(
        self,
        tokens: Sequence[_Operand] = (),
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """A token that comes after all the given tokens."""
    def make_token(
        self,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """A token that comes after nothing."""
    def load_ptr_tko(
        self,
        source: _Operand,
        mask: _Operand | None = None,
        paddingValue: _Operand | None = None,
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"] = "weak",
        memory_scope: Literal["tl_blk", "device", "sys"] | None = None,
        optimization_hints: _Hints | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value]:
        """Reads one element through each pointer; masked-off elements take the padding value."""
    def store_ptr_tko(
        self,
        destination: _Operand,
        value: _Operand,
        mask: _Operand | None = None,
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"] = "weak",
        memory_scope: Literal["tl_blk", "device", "sys"] | None = None,
        optimization_hints: _Hints | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Writes one element through each pointer; masked-off elements are left alone."""
    def gdc_launch_dependents_tko(
        self,
        token: _Operand | None = None,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Lets grids that depend on this one be scheduled. Orders no memory."""
    def gdc_wait_tko(
        self,
        token: _Operand | None = None,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Waits for the grids that this one depends on; what they wrote is visible after it."""
    def memory_fence_alias_tko(
        self,
        token: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Orders accesses that reach one location through different addresses."""
    def assume(
        self,
        value: _Operand,
        *,
        predicate: AssumePredicateAttr,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """The value itself, with the promise that it fulfils the predicate."""
    def print_tko(
        self,
        args: Sequence[_Operand] = (),
        token: _Operand | None = None,
        *,
        str: str,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Prints tiles by a printf-like format, one conversion for each operand."""
    def multimem_load_reduce_view_tko(
        self,
        view: _Operand,
        index: Sequence[_Operand] = (),
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"],
        memory_scope: Literal["tl_blk", "device", "sys"] | None = None,
        reduction: Literal["add", "min", "max", "and", "or", "xor", "umin", "umax"] | None = None,
        inbounds: Sequence[bool] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value]:
        """Loads the tile at an index from every replica and combines them element by element."""
    def multimem_reduce_view_tko(
        self,
        view: _Operand,
        tile: _Operand,
        index: Sequence[_Operand] = (),
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"],
        memory_scope: Literal["tl_blk", "device", "sys"],
        reduction: Literal["add", "min", "max", "and", "or", "xor", "umin", "umax"] | None = None,
        inbounds: Sequence[bool] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Combines a tile into every replica, atomically."""
    def multimem_store_view_tko(
        self,
        view: _Operand,
        tile: _Operand,
        index: Sequence[_Operand] = (),
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"],
        memory_scope: Literal["tl_blk", "device", "sys"] | None = None,
        inbounds: Sequence[bool] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Writes a tile to every replica."""
    def make_partition_view(
        self,
        tensor_view: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """A view of non-overlapping tiles: index I covers elements from I * extent on."""
    def make_strided_view(
        self,
        tensor_view: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """A view of tiles that start ``traversal_strides`` elements apart."""
    def make_gather_scatter_view(
        self,
        tensor_view: _Operand,
        *,
        to: _Type | None = None,
        shape: Sequence[int] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """A view whose coordinates along the sparse dimension come from an index tile."""
    def get_tensor_shape(
        self,
        src: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Any:
        """The extents of a tensor view, read unsigned."""
    def get_index_space_shape(
        self,
        src: _Operand,
        *,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Any:
        """The number of indices along each dimension of a view, read unsigned."""
    def load_view_tko(
        self,
        view: _Operand,
        index: Sequence[_Operand] = (),
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"] = "weak",
        memory_scope: Literal["tl_blk", "device", "sys"] | None = None,
        optimization_hints: _Hints | None = None,
        inbounds: Sequence[bool] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> tuple[Value, Value]:
        """The tile at an index of a view; elements outside the tensor take the view's padding."""
    def store_view_tko(
        self,
        tile: _Operand,
        view: _Operand,
        index: Sequence[_Operand] = (),
        token: _Operand | None = None,
        *,
        memory_ordering_semantics: Literal["weak", "relaxed", "acquire", "release", "acq_rel"] = "weak",
        memory_scope: Literal["tl_blk", "device", "sys"] | None = None,
        optimization_hints: _Hints | None = None,
        inbounds: Sequence[bool] | None = None,
        type: _Type | Sequence[_Type] | None = None,
    ) -> Value:
        """Writes a tile at an index of a view; elements outside the tensor are dropped."""
