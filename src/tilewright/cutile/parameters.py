"""Kernel arguments: their specialisation, as cuTile's own dispatcher does it, and their values.

Reading the arguments of a launch gives a key and values. Launches with equal keys run the same
compiled kernel; the key holds all that cuTile compiles a kernel for: element types, ranks, which
extents and strides are multiples of 16 or one, alignment, constants. ``constraints_of`` turns a key
into the constraints from which cuTile compiles.
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.cutile.arrays import (
    NUMPY_DTYPES,
    RawArray,
    Reader,
    address_of,
    byte_bounds,
    find_reader,
    is_plain_tensor,
    read_numpy,
    read_torch,
)
from tilewright.cutile.errors import type_name
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.launching.described import ArrayValue, Layout, ListValue, Value

if TYPE_CHECKING:
    from tilewright.cutile.frontend import FrontEnd

__tracebackhide__ = hides_frames

_INT32_MAX, _INT32_MIN = 2**31 - 1, -(2**31)
_INT64_MAX, _INT64_MIN = 2**63 - 1, -(2**63)
_UINT64_MAX = 2**64 - 1
_DIVISOR = 16
#: Arrays of a higher rank are not specialised by their strides and extents.
_MAX_SPECIALISED_RANK = 5
#: As deep as tuples may be nested in cuTile.
MAX_NESTING = 16
_MAX_LAYOUTS = 4096


@dataclass(frozen=True, slots=True)
class ArrayTraits:
    """What a kernel is compiled for, of one array argument. Divisors are 1 where nothing is known.

    ``constant_strides`` and ``constant_shape`` are None for dimensions that stay variable.
    """

    dtype: str
    rank: int
    is_index64: bool
    constant_strides: tuple[int | None, ...]
    constant_shape: tuple[int | None, ...]
    stride_divisors: tuple[int, ...]
    shape_divisors: tuple[int, ...]
    is_disjoint: bool
    base_divisor: int

    def merged(self, other: ArrayTraits) -> ArrayTraits:
        """What two arrays of one list have in common."""
        return ArrayTraits(
            self.dtype,
            self.rank,
            self.is_index64,
            _common(self.constant_strides, other.constant_strides, None),
            _common(self.constant_shape, other.constant_shape, None),
            _common(self.stride_divisors, other.stride_divisors, 1),
            _common(self.shape_divisors, other.shape_divisors, 1),
            self.is_disjoint and other.is_disjoint,
            min(self.base_divisor, other.base_divisor),
        )


def _common(first: tuple[Any, ...], second: tuple[Any, ...], otherwise: Any) -> tuple[Any, ...]:
    return tuple(a if a == b else otherwise for a, b in zip(first, second, strict=True))


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """What the annotation of a parameter says about arrays."""

    is_index64: bool = False
    static_shape_dims: tuple[int, ...] = ()
    static_stride_dims: tuple[int, ...] = ()

    @classmethod
    def of(cls, annotation: Any) -> ArrayAnnotation:
        """From cuTile's annotation object, or None where a parameter has none."""
        if annotation is None:
            return cls()
        return cls(
            annotation.index_dtype.bitwidth == 64,
            tuple(annotation.static_shape_dims),
            tuple(annotation.static_stride_dims),
        )


Key = list[object]
"""What a kernel is compiled for, of its arguments: see ``constraints_of``."""

ReadArgument = Callable[[Any, Key, list[Value]], None]
"""Adds the key and the values of an argument; what cuTile refuses raises the same error."""


class Traits:
    """All array traits that were met, by number. Numbers are what keys hold."""

    def __init__(self) -> None:
        self._numbers: dict[ArrayTraits, int] = {}
        self._known: list[ArrayTraits] = []

    def number(self, traits: ArrayTraits) -> int:
        """The number of such traits, a new one when they are met first."""
        found = self._numbers.get(traits)
        if found is None:
            found = self._numbers[traits] = len(self._known)
            self._known.append(traits)
        return found

    def __getitem__(self, number: int) -> ArrayTraits:
        return self._known[number]


TRAITS = Traits()

# Items of a key beside the numbers of array traits, which are not negative.
_BOOL, _INT32, _INT64, _FLOAT, _LIST, _OPEN, _CLOSE = range(-1, -8, -1)
#: The element type of each kind of scalar.
SCALAR_DTYPES = {_BOOL: "bool_", _INT32: "int32", _INT64: "int64", _FLOAT: "float32"}


def is_array(item: object) -> bool:
    """Whether an item of a key is the number of the traits of an array."""
    return isinstance(item, int) and item >= 0


def is_list(item: object) -> bool:
    """Whether an item of a key says that the traits of a list's arrays follow."""
    return item == _LIST


def is_open(item: object) -> bool:
    """Whether an item of a key begins a tuple."""
    return item == _OPEN


def is_close(item: object) -> bool:
    """Whether an item of a key ends a tuple."""
    return item == _CLOSE


#: Makes a named tuple of all its fields, without the function that a call of its class goes through.
_new = tuple.__new__


class ConstantKey(NamedTuple):
    """A constant in a key: a float as its bytes, for some are equal, or unequal to themselves."""

    kind: type
    content: bool | int | bytes

    @property
    def value(self) -> bool | int | float:
        """The constant; floats are kept as bytes, so that 0.0 and -0.0 are different keys, and NaN
        equals itself."""
        if isinstance(self.content, bytes):
            return struct.unpack("<d", self.content)[0]
        return self.content


class Parameter:
    """A parameter that is no tuple: reads arguments of any kind that it may be given.

    ``readers`` has a reader for each type that was met; ``reader_for`` makes those that are missing.
    """

    def __init__(self, name: str, label: str, node: Any, front: FrontEnd):
        self.name = name
        self.readers: dict[type, ReadArgument] = {}
        self._label, self._front = label, front
        self._is_constant: bool = node.constant
        scalar = node.scalar
        self._is_int64 = scalar is not None and scalar.dtype.bitwidth == 64
        self._array = ArrayAnnotation.of(node.array)
        self._item = ArrayAnnotation.of(None if node.list is None else node.list.element)
        self._node = node
        self._tuple: TupleParameter | None = None
        self._layouts: dict[object, Layout] = {}
        self._item_layouts: dict[object, Layout] = {}

    def reader_for(self, value: object) -> ReadArgument:
        """The reader of an argument. Raises TypeError for what cuTile refuses because of its type, as cuTile does."""
        reader = self.readers.get(type(value))
        if reader is None:
            reader = self.readers[type(value)] = self._new_reader(value)
        return reader

    def classify(self, value: object) -> None:
        """Raise what cuTile raises for an argument because of its type alone, if it does."""
        self.reader_for(value)
        if type(value) is tuple:
            self._items().classify(value)

    def _items(self) -> TupleParameter:
        if self._tuple is None:
            self._tuple = TupleParameter(
                self.name, self._label, lambda n: [self._node] * n, self._front
            )
        return self._tuple

    def _new_reader(self, value: object) -> ReadArgument:
        kind = type(value)
        if issubclass(kind, tuple):
            return self._tuple_reader(value)
        if self._is_constant:
            return self._constant_reader(value)
        for base, reader in (
            (bool, _read_bool),
            (int, _int_reader(64 if self._is_int64 else 32, self._front.release)),
            (float, _read_float),
            (list, self._read_list),
        ):
            if issubclass(kind, base):
                return reader
        array_reader = find_reader(kind, value)
        if array_reader is None:
            raise TypeError(
                f"Invalid {self._label}: Objects of type '{type_name(value)}' are not supported."
            )
        if array_reader is read_numpy:
            return self._ndarray_reader()
        if array_reader is read_torch:
            return self._tensor_reader()
        return self._array_reader(array_reader)

    def _tuple_reader(self, value: object) -> ReadArgument:
        if type(value) is not tuple:
            if self._is_constant:
                raise self._not_constant(value)
            raise TypeError(
                f"Invalid {self._label}: '{type_name(value)}' is a subclass of 'tuple'. "
                f"Only plain tuples are accepted."
            )
        if self.name.count("[") >= MAX_NESTING:
            raise ValueError(f"Argument nesting exceeds maximum depth of {MAX_NESTING}")
        return self._items().read

    def _constant_reader(self, value: object) -> ReadArgument:
        kind = type(value)
        if not issubclass(kind, bool | int | float):
            raise self._not_constant(value)
        base = next(base for base in (bool, int, float) if issubclass(kind, base))

        whole = bool if base is bool else int

        def read(value: Any, key: Key, values: list[Value]) -> None:
            if base is int and value > _UINT64_MAX:
                raise OverflowError("Python int too large to convert to C unsigned long")
            if base is int and value < _INT64_MIN:
                raise OverflowError("can't convert negative value to unsigned int")
            key.append(ConstantKey(base, _pack_double(value) if base is float else whole(value)))

        return read

    def _not_constant(self, value: object) -> TypeError:
        return TypeError(
            f"Invalid {self._label}: Could not interpret object of type '{type_name(value)}' as a "
            f"constant."
        )

    def _ndarray_reader(self) -> ReadArgument:
        name = self.name
        layouts: dict[object, Layout] = {}

        def read(array: np.ndarray[Any, Any], key: Key, values: list[Value]) -> None:
            kind = (array.dtype, array.shape, array.strides)
            known = layouts.get(kind)
            if known is None:
                known = self._layout(read_numpy(array), self._array)
                _remember(layouts, kind, known)
            address = address_of(array)
            key.append(known.numbers[address % _DIVISOR == 0])
            writable = array.flags.writeable
            values.append(_new(ArrayValue, (name, address, known, writable, array, False)))

        return read

    def _tensor_reader(self) -> ReadArgument:
        name = self.name
        layouts: dict[object, Layout] = {}
        plainly: Any = sys.modules["torch"]._C.DisableTorchFunction

        def read(tensor: Any, key: Key, values: list[Value]) -> None:
            # Neither the user's modes and subclasses nor ours are to see what is asked here.
            is_on_gpu = False
            with plainly():
                if not is_plain_tensor(tensor):
                    is_on_gpu = read_torch(tensor).is_on_gpu
                kind = (tensor.dtype, tensor.shape, tensor.stride())
                address = tensor.data_ptr()
            known = layouts.get(kind)
            if known is None:
                known = self._layout(read_torch(tensor), self._array)
                _remember(layouts, kind, known)
            key.append(known.numbers[address % _DIVISOR == 0])
            values.append(_new(ArrayValue, (name, address, known, True, tensor, is_on_gpu)))

        return read

    def _array_reader(self, reader: Reader) -> ReadArgument:
        def read(array: Any, key: Key, values: list[Value]) -> None:
            value = self._array_value(reader(array), self._layouts, self.name, array)
            key.append(value.layout.numbers[value.address % _DIVISOR == 0])
            values.append(value)

        return read

    def _array_value(
        self, raw: RawArray, layouts: dict[object, Layout], name: str, owner: object
    ) -> ArrayValue:
        address, dtype, shape, strides, is_writable, is_on_gpu = raw
        kind = (dtype, shape, strides)
        known = layouts.get(kind)
        if known is None:
            known = self._layout(raw, self._array if layouts is self._layouts else self._item)
            _remember(layouts, kind, known)
        return ArrayValue(name, address, known, is_writable, owner, is_on_gpu)

    def _layout(self, raw: RawArray, annotation: ArrayAnnotation) -> Layout:
        index = np.int64 if annotation.is_index64 else np.int32
        if not annotation.is_index64:
            _check_int32("shape", raw.shape)
            _check_int32("stride", raw.strides)
        if any(s < 0 for s, extent in zip(raw.strides, raw.shape, strict=True) if extent > 1):
            raise TypeError(f"Invalid {self._label}: Negative strides are currently not supported")
        numbers = tuple(
            TRAITS.number(_traits(raw, annotation, base_divisor)) for base_divisor in (1, _DIVISOR)
        )
        itemsize = NUMPY_DTYPES[raw.dtype].itemsize
        low, high = byte_bounds(raw.shape, raw.strides, itemsize)
        mask = 2 ** (8 * np.dtype(index).itemsize) - 1
        return Layout(
            (numbers[0], numbers[1]),
            tuple(np.array(number, index) for number in (*raw.shape, *raw.strides)),
            tuple(int(number) & mask for number in (*raw.shape, *raw.strides)),
            low,
            high - low,
            NUMPY_DTYPES[raw.dtype],
            tuple(raw.shape),
            tuple(raw.strides),
        )

    def _read_list(self, items: list[Any], key: Key, values: list[Value]) -> None:
        if not items:
            raise TypeError("Empty lists are not supported as kernel arguments")
        arrays: list[ArrayValue] = []
        traits: ArrayTraits | None = None
        for position, item in enumerate(items):
            reader = _item_reader(item, position)
            name = f"{self.name}[{position}]"
            value = self._array_value(reader(item), self._item_layouts, name, item)
            own = TRAITS[value.layout.numbers[value.address % _DIVISOR == 0]]
            traits = own if traits is None else _merged_in_list(traits, own, self._item)
            arrays.append(value)
        assert traits is not None
        key += (_LIST, TRAITS.number(traits))
        values.append(ListValue(self.name, arrays))


_pack_double = struct.Struct("<d").pack
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def _read_bool(value: bool, key: Key, values: list[Value]) -> None:
    key.append(_BOOL)
    values.append(np.array(value, np.bool_))


def _int_reader(width: int, release: tuple[int, ...]) -> ReadArgument:
    c_type = f"int{width}_t"
    if release < (1, 7):
        c_type = "long" if width == 64 else "int"
    low, high = {32: (_INT32_MIN, _INT32_MAX), 64: (_INT64_MIN, _INT64_MAX)}[width]
    item, dtype = {32: (_INT32, np.int32), 64: (_INT64, np.int64)}[width]

    def read(value: int, key: Key, values: list[Value]) -> None:
        if not low <= value <= high:
            raise OverflowError(f"Python int too large to convert to C {c_type}")
        key.append(item)
        values.append(np.array(value, dtype))

    return read


def _read_float(value: float, key: Key, values: list[Value]) -> None:
    key.append(_FLOAT)
    if -_LARGEST_FLOAT32 <= value <= _LARGEST_FLOAT32:
        values.append(np.array(value, np.float32))
    else:
        with np.errstate(over="ignore"):
            values.append(np.array(value, np.float32))


def _remember(layouts: dict[object, Layout], kind: object, layout: Layout) -> None:
    if len(layouts) >= _MAX_LAYOUTS:
        layouts.clear()
    layouts[kind] = layout


def _item_reader(item: object, position: int) -> Reader:
    kind = type(item)
    if issubclass(kind, bool | int | float | list):
        raise TypeError(f"Expected list items to be arrays, got {type_name(item)}")
    reader = None if issubclass(kind, tuple) else find_reader(kind, item)
    if reader is None:
        raise TypeError(
            f"Invalid list item #{position}: unsupported object type '{type_name(item)}'"
        )
    return reader


def _merged_in_list(
    traits: ArrayTraits, other: ArrayTraits, annotation: ArrayAnnotation
) -> ArrayTraits:
    if traits.dtype != other.dtype:
        raise TypeError("Arrays in list vary in data type")
    if traits.rank != other.rank:
        raise TypeError("Arrays in list vary in rank")
    for what, axes, one, two in (
        ("shape", annotation.static_shape_dims, traits.constant_shape, other.constant_shape),
        ("stride", annotation.static_stride_dims, traits.constant_strides, other.constant_strides),
    ):
        for axis in sorted(axis % traits.rank for axis in axes):
            if one[axis] != two[axis]:
                raise ValueError(
                    f"Arrays in list vary in static {what} at axis {axis} ({one[axis]} vs "
                    f"{two[axis]})"
                )
    return traits.merged(other)


def _check_int32(what: str, numbers: Sequence[int]) -> None:
    if not all(_INT32_MIN <= number <= _INT32_MAX for number in numbers):
        raise OverflowError(f"{what} is too big")


class TupleParameter:
    """A parameter that takes tuples; ``nodes(n)`` gives the annotations of ``n`` items."""

    def __init__(
        self, name: str, label: str, nodes: Callable[[int], Sequence[Any]], front: FrontEnd
    ):
        self._name, self._label, self._nodes, self._front = name, label, nodes, front
        self._items: dict[int, list[Parameter | TupleParameter]] = {}
        self.readers: dict[type, ReadArgument] = {tuple: self.read}

    def reader_for(self, value: object) -> ReadArgument:
        """As of :class:`Parameter`; any value but a tuple is refused when it is read."""
        return self.read

    def read(self, value: object, key: Key, values: list[Value]) -> None:
        """Append the kinds of the items to the key, between marks, and their values.

        Raises TypeError for what is no tuple, and as the readers of its items do.
        """
        items = self._parts(value)
        assert isinstance(value, tuple)
        key.append(_OPEN)
        for item, part in zip(items, value):
            item.reader_for(part)(part, key, values)
        key.append(_CLOSE)

    def classify(self, value: object) -> None:
        """Raise TypeError, as cuTile does, for an argument that it refuses because of its type alone."""
        items = self._parts(value)
        assert isinstance(value, tuple)
        for item, part in zip(items, value, strict=True):
            item.classify(part)

    def _parts(self, value: object) -> Sequence[Parameter | TupleParameter]:
        if type(value) is not tuple:
            raise TypeError("Received a non-tuple argument for a parameter annotated as a tuple")
        items = self._items.get(len(value))
        if items is None:
            items = self._items[len(value)] = [
                parameter(
                    f"{self._name}[{position}]",
                    f"item #{position} of {self._label}",
                    node,
                    self._front,
                )
                for position, node in enumerate(self._nodes(len(value)))
            ]
        return items


def parameter(name: str, label: str, node: Any, front: FrontEnd) -> Parameter | TupleParameter:
    """What reads the arguments of a parameter.

    Messages call it ``label``; ``node`` is its annotation in cuTile's form.
    """
    if node.KIND == "homogeneous_tuple":
        return TupleParameter(name, label, lambda n: [node.each] * n, front)
    if node.KIND == "heterogeneous_tuple":
        return TupleParameter(name, label, lambda n: _as_many(node.items, n), front)
    return Parameter(name, label, node, front)


def _as_many(nodes: Sequence[Any], given: int) -> Sequence[Any]:
    if len(nodes) != given:
        raise TypeError(
            f"Received a tuple of length {given} for a parameter annotated as a tuple of length "
            f"{len(nodes)}"
        )
    return nodes


def _static_axes(axes: Sequence[int], rank: int, what: str) -> set[int]:
    found: set[int] = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(f"{what} contains axis {axis} but array rank is {rank}")
        if axis % rank in found:
            raise ValueError(f"{what} contains duplicate axis {axis}")
        found.add(axis % rank)
    return found


def _traits(raw: RawArray, annotation: ArrayAnnotation, base_divisor: int) -> ArrayTraits:
    rank = len(raw.shape)
    bits = NUMPY_DTYPES[raw.dtype].itemsize * 8
    static_shape = _static_axes(annotation.static_shape_dims, rank, "static_shape_dims")
    static_strides = _static_axes(annotation.static_stride_dims, rank, "static_stride_dims")
    is_small = rank <= _MAX_SPECIALISED_RANK
    infers_one = is_small and not static_strides
    per_16_bytes = _DIVISOR * 8 // bits
    return ArrayTraits(
        raw.dtype,
        rank,
        annotation.is_index64,
        tuple(
            stride if axis in static_strides or (infers_one and stride == 1) else None
            for axis, stride in enumerate(raw.strides)
        ),
        tuple(
            extent
            if axis in static_shape or (is_small and not static_shape and extent == 1)
            else None
            for axis, extent in enumerate(raw.shape)
        ),
        tuple(
            per_16_bytes if is_small and stride % per_16_bytes == 0 else 1 for stride in raw.strides
        ),
        tuple(_DIVISOR if is_small and extent % _DIVISOR == 0 else 1 for extent in raw.shape),
        _is_disjoint(raw.shape, raw.strides),
        base_divisor,
    )


def _is_disjoint(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether it is easy to see that no two indices lead to one element."""
    ordered = sorted(zip(strides, shape, strict=True))
    if ordered and ordered[0][0] <= 0:
        return False
    pairs = itertools.pairwise(ordered)
    return all(wider >= stride * extent for (stride, extent), (wider, _) in pairs)


def constraints_of(key: Sequence[object], front: FrontEnd) -> list[object]:
    """cuTile's constraints for a key, one for each Python parameter."""
    return _constraints(iter(key), front)


def _constraints(items: Iterator[Any], front: FrontEnd) -> list[object]:
    """The constraints up to the end of the tuple that is open."""
    made = front.signature
    found: list[object] = []
    for item in items:
        if isinstance(item, ConstantKey):
            found.append(made.ConstantConstraint(item.value))
        elif item >= 0:
            found.append(_array_constraint(TRAITS[item], front))
        elif item == _LIST:
            element = _array_constraint(TRAITS[next(items)], front)
            found.append(made.ListConstraint(element, alias_groups=(), elements_may_alias=True))
        elif item == _OPEN:
            found.append(made.TupleConstraint(_constraints(items, front)))
        elif item == _CLOSE:
            break
        else:
            found.append(made.ScalarConstraint(getattr(front.dtypes, SCALAR_DTYPES[item])))
    return found


def _array_constraint(traits: ArrayTraits, front: FrontEnd) -> object:
    dtypes = front.dtypes
    return front.signature.ArrayConstraint(
        getattr(dtypes, traits.dtype),
        traits.rank,
        index_dtype=dtypes.int64 if traits.is_index64 else dtypes.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=not traits.is_disjoint,
        stride_constant=traits.constant_strides,
        shape_constant=traits.constant_shape,
        stride_divisible_by=traits.stride_divisors,
        shape_divisible_by=traits.shape_divisors,
        base_addr_divisible_by=traits.base_divisor,
    )
