"""Kernel arguments on the command line: what a SPEC says, as NumPy arrays and numbers.

===========================  ==================================================================
``a.npy``, ``d.npz:key``     an array from a file
``random:f32:128x64[:seed]`` floats uniform in [0, 1), integers uniform over the whole type
``normal:f32:128x64[:seed]`` floats of the standard normal distribution
``zeros:``, ``ones:``        all elements 0, or 1
``iota:i32:256``             0, 1, 2, ... in row-major order
``full:f32:16:3.5``          all elements the given number
``part:x``, ``part:x:4:12``  the array of another parameter, given before, or some of its
                             elements in row-major order, in place
``i32:5``, ``f32:1.5``       a number whose type must be that of the parameter
``5``, ``1.5``, ``true``     a number of the parameter's type
``array:SPEC``               an array for a group of parameters: pointer, extents, strides
===========================  ==================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cli.array_files import read_array
from tilewright.cli.session import UsageError
from tilewright.diagnostics import define_code
from tilewright.numerics import FORMATS
from tilewright.numerics.arrays import Array, dtype_of, from_bits
from tilewright.numerics.convert import ftof

if TYPE_CHECKING:
    from tilewright.launching.interfaces import KernelInterface
    from tilewright.launching.modules import KernelOp

ARGUMENT_SPEC = define_code(
    "argument-spec",
    "An argument of `tilewright run` does not describe a value for its parameter.",
    "Pointers take arrays (`a.npy`, `zeros:f32:128x64`, ...) with elements of the pointee type; "
    "other parameters take numbers (`5`, `i32:5`). `array:SPEC` stands for a pointer and the "
    "extents and strides that follow it, as cuTile passes an array. `part:NAME` is the array of "
    "another parameter, `part:NAME:4:12` some of its elements, in place.",
)

_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w$.\-]*)=(?P<spec>.*)", re.DOTALL)
_GROUP = "array:"
_PART = re.compile(r"part:(?P<name>[^:]+)(?::(?P<start>\d+):(?P<stop>\d+))?")
# In memory two of these elements share a byte, so an array holds bytes.
_MEMORY_FORMS = {"f4E2M1FN": "i8"}
#: Element types; if several share a representation, the most usual comes first.
_SHOWN = (
    *("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN"),
    *("i64", "i32", "i16", "i8", "i1"),
)
_BOOLEANS = {"true": 1, "false": 0}
_NPZ = re.compile(r"(?P<path>.*\.npz):(?P<key>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel.

    ``element`` is the type of the number, or of the pointee: i8 for f4E2M1FN, whose elements are passed
    in pairs; empty for a pointer to elements of any type.
    """

    index: int
    name: str
    element: str
    is_pointer: bool

    def __str__(self) -> str:
        shown = self.element
        if self.is_pointer:
            shown = f"ptr<{self.element}>" if self.element else "ptr"
        return f"'{self.name}: {shown}'"


Value = Any
"""An array for a pointer, a Python number otherwise."""


def parameters_of(entry: KernelOp) -> list[Parameter]:
    """Return the parameters, by the names in the text, or ``arg0``, ``arg1``, ... if it has none.

    Raises UsageError for one that is neither a number nor a pointer.
    """
    from tilewright.launching.value_types import is_pointer, pointee_in, tile_like

    found: list[Parameter] = []
    for index, argument in enumerate(entry.block.args):
        name, ty = argument.name_hint, tile_like(argument.type)
        if ty is None or ty.rank:
            raise _unusual(name, index)
        element = pointee_in(ty) if is_pointer(ty) else ty.element
        found.append(_parameter(index, name, element, is_pointer=is_pointer(ty)))
    return found


def parameters_in(interface: KernelInterface) -> list[Parameter]:
    """The same for a kernel of which only the interface is known. Raises UsageError as it does."""
    found: list[Parameter] = []
    for index, parameter in enumerate(interface.parameters):
        ty = parameter.type
        if ty.dims:
            raise _unusual(parameter.name, index)
        element = ty.pointee if ty.is_pointer else ty.element
        found.append(_parameter(index, parameter.name, element, is_pointer=ty.is_pointer))
    return found


def _parameter(index: int, name: str | None, element: str, *, is_pointer: bool) -> Parameter:
    held = _MEMORY_FORMS.get(element, element)
    return Parameter(index, name or f"arg{index}", held, is_pointer)


def _unusual(name: str | None, index: int) -> UsageError:
    return _bad(f"parameter '{name or f'arg{index}'}' is neither a number nor a pointer")


def with_elements(parameters: Sequence[Parameter], values: Sequence[Value]) -> list[Parameter]:
    """Return the parameters, with pointers to any type given the element types of their arrays."""
    return [
        parameter if parameter.element else replace(parameter, element=_element_of(value.dtype))
        for parameter, value in zip(parameters, values, strict=True)
    ]


def _element_of(dtype: np.dtype[Any]) -> str:
    """Return the element type of an array, for printing numbers."""
    signed = np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" else dtype
    found = next((name for name in _SHOWN if dtype_of(name) == signed), None)
    if found is None:
        raise _bad(f"there are no elements of dtype {dtype}")
    return found


def bind(parameters: Sequence[Parameter], texts: Sequence[str], seed: int) -> list[Value]:
    """Return a value for every parameter, from arguments ``[NAME=]SPEC``.

    Unnamed arguments go to the first parameters that are still unset. Random values depend on ``seed``
    and the parameter's position. Raises ``UsageError``.
    """
    by_name = {p.name: p.index for p in parameters}
    by_name |= {f"arg{p.index}": p.index for p in parameters if f"arg{p.index}" not in by_name}
    values: dict[int, Value] = {}
    for text in texts:
        named = _NAMED.fullmatch(text)
        if named is not None:
            if named["name"] not in by_name:
                known = ", ".join(p.name for p in parameters) or "none"
                raise _bad(f"the kernel has no parameter '{named['name']}'; parameters: {known}")
            index, spec = by_name[named["name"]], named["spec"]
        else:
            index = next((p.index for p in parameters if p.index not in values), len(parameters))
            spec = text
        arrays = {p.name: values[p.index] for p in parameters if p.index in values and p.is_pointer}
        for offset, value in enumerate(_expand(parameters, index, spec, seed, arrays)):
            if index + offset in values:
                raise _bad(f"parameter {parameters[index + offset]} gets two values")
            values[index + offset] = value
    missing = [str(p) for p in parameters if p.index not in values]
    if missing:
        raise _bad(f"no argument for parameter {', '.join(missing)}", help="add `--arg NAME=SPEC`")
    return [values[p.index] for p in parameters]


def _expand(
    parameters: Sequence[Parameter],
    index: int,
    spec: str,
    seed: int,
    arrays: Mapping[str, Array],
) -> list[Value]:
    if index >= len(parameters):
        raise _bad(f"too many arguments: '{spec}'")
    parameter = parameters[index]
    generator = np.random.default_rng([seed, index])
    if not spec.startswith(_GROUP):
        if not parameter.is_pointer:
            return [number_of(spec, parameter)]
        return [array_of(spec, parameter, generator, arrays)]
    if not parameter.is_pointer:
        raise _bad(f"'{spec}' is an array, but parameter {parameter} is not a pointer")
    array = array_of(spec.removeprefix(_GROUP), parameter, generator, arrays)
    numbers = [*array.shape, *(stride // array.itemsize for stride in array.strides)]
    group = parameters[index + 1 : index + 1 + len(numbers)]
    if len(group) < len(numbers) or any(p.is_pointer or FORMATS[p.element].is_float for p in group):
        raise _bad(
            f"'{spec}' needs {len(numbers)} integer parameters after {parameter} for extents and "
            "strides",
            help="leave out `array:` to pass the pointer alone",
        )
    return [array, *numbers]


def number_of(spec: str, parameter: Parameter) -> int | float:
    """Return the number that a SPEC specifies for a parameter that is not a pointer.

    Raises TileIRError (``argument-spec``) if it does not fit the parameter.
    """
    element, colon, text = spec.rpartition(":")
    if colon and element != parameter.element:
        raise _bad(f"'{spec}' does not fit parameter {parameter}")
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    try:
        return float(text) if FORMATS[parameter.element].is_float else int(text, 0)
    except ValueError:
        kind = "a number" if FORMATS[parameter.element].is_float else "an integer"
        raise _bad(f"'{spec}' is not {kind}, as parameter {parameter} needs") from None


def array_of(
    spec: str,
    parameter: Parameter,
    generator: np.random.Generator,
    arrays: Mapping[str, Array] = MappingProxyType({}),
) -> Array:
    """Return the writable, C-ordered array that a SPEC specifies for a pointer: a new one, or a part of one of
    ``arrays``, those of other parameters by name.

    ``generator`` gives random elements. Raises TileIRError (``argument-spec``) for what specifies no array, or one of
    another element type.
    """
    if (part := _PART.fullmatch(spec)) is not None:
        return _part(part, spec, parameter, arrays)
    kind, colon, rest = spec.partition(":")
    if colon and kind in _MAKERS:
        return _made(kind, rest, spec, parameter, generator)
    if spec.endswith(".npy"):
        return _typed(read_array(spec, unknown=ARGUMENT_SPEC), spec, parameter)
    if (archive := _NPZ.fullmatch(spec)) is not None:
        found = read_array(archive["path"], archive["key"], unknown=ARGUMENT_SPEC)
        return _typed(found, spec, parameter)
    raise _bad(
        f"'{spec}' is not an array, as parameter {parameter} requires",
        help=f"for example `zeros:{parameter.element or 'f32'}:1024` or `data.npy`",
    )


def _part(
    part: re.Match[str], spec: str, parameter: Parameter, arrays: Mapping[str, Array]
) -> Array:
    whole = arrays.get(part["name"])
    if whole is None:
        known = ", ".join(arrays) or "none"
        raise _bad(f"'{spec}': no array has been given for '{part['name']}'; arrays: {known}")
    if parameter.element and whole.dtype != dtype_of(parameter.element):
        raise _bad(f"'{spec}' holds elements of dtype {whole.dtype}, which do not fit {parameter}")
    if part["start"] is None:
        return whole
    start, stop = int(part["start"]), int(part["stop"])
    if not start < stop <= whole.size:
        raise _bad(f"'{spec}': expected a range of the {whole.size} elements of '{part['name']}'")
    return whole.reshape(-1)[start:stop]


def _made(
    kind: str, rest: str, spec: str, parameter: Parameter, generator: np.random.Generator
) -> Array:
    element, _, rest = rest.partition(":")
    dims, colon, extra = rest.partition(":")
    if element not in FORMATS:
        raise _bad(f"'{spec}': there is no element type '{element}'")
    if parameter.element not in ("", element):
        raise _bad(f"'{spec}' does not fit parameter {parameter}")
    if not re.fullmatch(r"\d+(x\d+)*", dims):
        raise _bad(f"'{spec}': expected extents such as 128x64, found '{dims}'")
    shape = tuple(map(int, dims.split("x")))
    maker = _MAKERS[kind]
    if bool(colon) and maker.extra == "none":
        raise _bad(f"'{spec}': nothing can follow the extents")
    if not colon and maker.extra == "number":
        raise _bad(f"'{spec}': expected a number after the extents")
    if colon and maker.extra == "seed":
        if not extra.isdecimal():
            raise _bad(f"'{spec}': expected a seed, found '{extra}'")
        generator = np.random.default_rng(int(extra))
    if kind == "normal" and not FORMATS[element].is_float:
        raise _bad(f"'{spec}': only floats can be normally distributed")
    number = number_of(extra, Parameter(0, "element", element, False)) if kind == "full" else 0
    try:
        return maker.make(element, shape, number, generator)
    except (MemoryError, ValueError, OverflowError) as error:
        raise _bad(f"'{spec}' cannot be created: {error}") from None


def _from_numbers(numbers: Array, element: str) -> Array:
    """Convert numbers to elements: floats rounded once, integers modulo the width of the type."""
    if FORMATS[element].is_float:
        wide = np.asarray(numbers, np.float64)
        return np.ascontiguousarray(ftof(wide, "f64", to=element)).copy()
    return from_bits(np.asarray(numbers).astype(np.uint64), element).copy()


def _random(
    element: str, shape: tuple[int, ...], _: float, generator: np.random.Generator
) -> Array:
    if FORMATS[element].is_float:
        return _from_numbers(generator.random(shape), element)
    patterns = generator.integers(0, 1 << 64, shape, np.uint64)
    return from_bits(patterns, element).copy()


def _normal(
    element: str, shape: tuple[int, ...], _: float, generator: np.random.Generator
) -> Array:
    return _from_numbers(generator.standard_normal(shape), element)


def _full(element: str, shape: tuple[int, ...], number: float, _: np.random.Generator) -> Array:
    if FORMATS[element].is_float:
        return _from_numbers(np.full(shape, number, np.float64), element)
    bits = FORMATS[element].bits
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise OverflowError(f"{number} does not fit {element}")
    return _from_numbers(np.full(shape, int(number) % (1 << 64), np.uint64), element)


def _iota(element: str, shape: tuple[int, ...], _: float, __: np.random.Generator) -> Array:
    count = int(np.prod(shape, dtype=object))
    return _from_numbers(np.arange(count).reshape(shape), element)


@dataclass(frozen=True, slots=True)
class _Maker:
    """A constructor of arrays; ``extra`` is what may or must follow the extents."""

    make: Callable[[str, tuple[int, ...], float, np.random.Generator], Array]
    extra: str = "none"


_MAKERS: dict[str, _Maker] = {
    "random": _Maker(_random, "seed"),
    "normal": _Maker(_normal, "seed"),
    "zeros": _Maker(lambda element, shape, _, rng: _full(element, shape, 0, rng)),
    "ones": _Maker(lambda element, shape, _, rng: _full(element, shape, 1, rng)),
    "iota": _Maker(_iota),
    "full": _Maker(_full, "number"),
}


def _typed(array: Array, spec: str, parameter: Parameter) -> Array:
    """Return a C-ordered copy with the dtype of the parameter's elements.

    Signed and unsigned integers of one width are equivalent to a kernel. NumPy stores narrow floats as raw
    bytes, so raw bytes of the right size are accepted as elements, too.
    """
    given = array.dtype
    wanted = dtype_of(parameter.element) if parameter.element else given
    fits = given == wanted or (
        given.itemsize == wanted.itemsize
        and (given.type is np.void or {given.kind, wanted.kind} <= set("iu"))
    )
    if not fits:
        raise _bad(
            f"'{spec}' holds elements of dtype {given}, but parameter {parameter} needs {wanted}"
        )
    return np.array(array.view(wanted), order="C", copy=True)


def _bad(message: str, *, help: str = "") -> UsageError:
    return UsageError.because(message, code=ARGUMENT_SPEC, help=help)
