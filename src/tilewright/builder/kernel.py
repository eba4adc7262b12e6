"""The body of a kernel: operations as methods, constants, and structured control flow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, OptOperandDef, OptPropertyDef, VarOperandDef
from xdsl.utils.exceptions import VerifyException

from tilewright.analysis.structure import StructureChecker
from tilewright.analysis.verifier import find_own_problems
from tilewright.builder.checks import checked, is_bool, is_integer, listed
from tilewright.builder.constants import (
    constant_attribute,
    element_bits,
    element_of_dtype,
    is_number,
    shape_of,
)
from tilewright.builder.elementwise import Elementwise
from tilewright.builder.errors import BuilderError, caller, fail, fail_with
from tilewright.builder.operations import SEGMENTS, WEAK_BY_DEFAULT
from tilewright.builder.result_types import TypeLike, constant_type, result_types, tile, type_like
from tilewright.builder.structure import ForLoop, IfBranches, Loop, WhileLoop
from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.debug_info import DILocalScope, DILocAttr, file_position
from tilewright.dialects.cuda_tile.enums import PaddingValue
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import bool_array, is_terminator
from tilewright.dialects.source_map import PythonSource, set_source

_T = TypeVar("_T")
Body = Callable[..., "Sequence[Value | SSAValue] | Value | SSAValue | None"]


def hints_attribute(hints: Any) -> OptimizationHintsAttr | None:
    """Convert nested mappings to hints: target, then name, then a number (i32) or bool.

    Returns None where there are none. Raises TypeError for what is no mapping of mappings, and for a value that is
    neither a whole number nor a bool, xDSL's VerifyException for a number beyond i32; the methods of the builder
    make ``BuilderError`` of both.
    """
    if not hints:
        return None
    if not isinstance(hints, Mapping):
        raise TypeError(f"hints are given by target, such as sm_100, not as {hints!r:.60}")
    for target, entries in hints.items():
        if not isinstance(entries, Mapping):
            raise TypeError(f"the hints of {target} are given by name, not as {entries!r:.60}")
    return OptimizationHintsAttr(
        {
            target: {key: _hint(target, key, value) for key, value in entries.items()}
            for target, entries in hints.items()
        }
    )


def _hint(target: str, name: str, value: object) -> Attribute:
    if is_bool(value):
        return BoolAttr.from_bool(bool(value))
    if not is_integer(value):
        raise TypeError(f"{name} of {target} is a whole number or a bool, not {value!r:.60}")
    return IntegerAttr(int(value), builtin_i32)  # pyright: ignore[reportArgumentType]


class Arguments(SimpleNamespace):
    """The parameters of a kernel by name."""

    def __getattr__(self, name: str) -> Value:
        known = ", ".join(vars(self)) or "none"
        raise AttributeError(
            f"the kernel has no parameter '{name}'; it has: {known}", name=name, obj=self
        )


class Builder(Elementwise):
    """Appends operations to the innermost open block.

    ``args`` holds an entry's parameters by name, ``arguments`` in order. Every operation of the dialect
    is a method. Each call is checked immediately and raises ``BuilderError`` if it does not form a
    legal operation.
    """

    args: Arguments
    arguments: tuple[Value, ...]

    def __init__(self, block: Block, scope: DILocalScope | None = None) -> None:
        self._open: list[Block] = [block]
        self._loops: list[Loop] = []
        self._scope = scope
        self._checker = StructureChecker()
        self._last_if: IfBranches | None = None

    @property
    def block(self) -> Block:
        """The block to which the next operation is appended."""
        return self._open[-1]

    # Operations

    def op(self, mnemonic: str, *operands: Any, **fields: Any) -> Any:
        """Append an operation. Returns its result, a tuple of several, or the operation if it has none.

        Raises ``BuilderError`` for operands or keywords that the operation does not have, and for the
        verifier's errors about it.
        """
        if not isinstance(mnemonic, str) or (cls := OPERATIONS.get(mnemonic)) is None:
            fail(f"{mnemonic}", "is not an operation of cuda_tile")
        try:
            return self.append(self._made(cls, operands, fields))
        except BuilderError:
            raise
        except (TypeError, ValueError, OverflowError, VerifyException) as error:
            fail(mnemonic, str(error).strip().split("\n", 1)[0])

    def append(self, made: Operation) -> Any:
        """Append an operation created elsewhere, checked like any other. Returns what ``op`` returns.

        Raises ``BuilderError`` if the block has ended, if an operand is not visible here, and with the
        verifier's errors about the operation, which is then left out of the block.
        """
        what = made.name.removeprefix("cuda_tile.")
        block = self.block
        if is_terminator(block.last_op):
            last = block.last_op
            assert last is not None
            fail(what, f"the block has ended with {last.name.removeprefix('cuda_tile.')}")
        self._check_visible(what, made)
        file, line = caller()
        set_source(made, PythonSource(file, line))
        if self._scope is not None:
            made.location = DILocAttr(file_position(file, line), self._scope)  # pyright: ignore[reportAttributeAccessIssue]
        block.add_op(made)
        if isinstance(made, TileOp) and (problems := find_own_problems(made, self._checker)):
            made.detach()
            fail_with(what, problems)
        if not made.results:
            return made
        results = tuple(Value(self, result) for result in made.results)
        return results[0] if len(results) == 1 else results

    def _check_visible(self, what: str, made: Operation) -> None:
        """Check that the operands are defined in an open block or one that encloses it."""
        for position, value in enumerate(made.operands):
            owner = value.owner
            block = owner if isinstance(owner, Block) else owner.parent
            if block in self._open:
                continue
            around = self._open[0].parent_block()
            while around is not None and around is not block:
                around = around.parent_block()
            if around is None:
                name = f" (%{value.name_hint})" if value.name_hint else ""
                fail(
                    what,
                    f"operand {position}{name} is not visible here: the block that defines it has "
                    "ended or belongs to another kernel",
                    "return it from an `if_` or a loop as a named value",
                )

    def _made(self, cls: type[TileOp], operands: tuple[Any, ...], fields: dict[str, Any]) -> TileOp:
        definition = cls.get_irdl_definition()
        mnemonic = cls.mnemonic()
        if mnemonic in WEAK_BY_DEFAULT:
            fields.setdefault("memory_ordering_semantics", "weak")
        groups = self._operand_groups(cls, operands, fields)
        properties = self._properties(cls, fields)
        given = fields.pop("type", None)
        values = self._materialised(cls, groups)
        if any(isinstance(o, AttrSizedOperandSegments) for o in definition.options):
            sizes = [len(values[name]) for name, _ in definition.operands]
            properties[SEGMENTS] = DenseArrayBase.from_list(builtin_i32, sizes)
        if given is None:
            types = result_types(cls, values, properties, fields)
        else:
            several = [given] if isinstance(given, str | Attribute) else given
            if not isinstance(several, Sequence):
                raise TypeError(f"type is a type or a list of types, not {given!r:.60}")
            types = [type_like(ty) for ty in several]
        if fields:
            raise TypeError(f"{mnemonic} has no {', '.join(sorted(fields))}")
        return cls.create(
            operands=[v for name, _ in definition.operands for v in values[name]],
            result_types=types,
            properties=properties,
            regions=[Region() for _ in definition.regions],
        )

    def _operand_groups(
        self, cls: type[TileOp], operands: tuple[Any, ...], fields: dict[str, Any]
    ) -> dict[str, list[Any]]:
        """Return operands by group: positional ones in order, optional ones also by keyword."""
        groups: dict[str, list[Any]] = {}
        positional = list(operands)
        for name, group in cls.get_irdl_definition().operands:
            is_list = isinstance(group, VarOperandDef)
            if name in fields:
                given = fields.pop(name)
                given = () if given is None and is_list else given
            elif positional:
                given = positional.pop(0)
                given = () if given is None and is_list else given
            elif is_list:
                given = ()
            else:
                raise TypeError(f"{cls.mnemonic()} needs an operand '{name}'")
            listed = isinstance(given, Sequence) and not isinstance(given, str)
            if listed and (not is_list or (isinstance(group, OptOperandDef) and given)):
                raise TypeError(f"operand '{name}' of {cls.mnemonic()} is one value, not a list")
            values: Sequence[Any] = given if listed else [given]  # pyright: ignore[reportAssignmentType]
            groups[name] = [self._operand(cls, name, value) for value in values]
        if positional:
            names = [name for name in cls.get_irdl_definition().properties if name != SEGMENTS]
            also = f"; by keyword: {', '.join(names)}" if names else ""
            raise TypeError(f"{cls.mnemonic()} got {len(positional)} operands too many{also}")
        return groups

    def _operand(self, cls: type[TileOp], name: str, value: Any) -> Any:
        """Unwrap a value; numbers are returned unchanged."""
        if isinstance(value, Value):
            return value.ssa
        if isinstance(value, SSAValue) or is_number(value):
            return value
        raise TypeError(
            f"operand '{name}' of {cls.mnemonic()} is a {type(value).__name__}, expected a value or "
            "a number"
        )

    def _properties(self, cls: type[TileOp], fields: dict[str, Any]) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        definitions = cls.get_irdl_definition().properties
        for name, definition in definitions.items():
            key = next((k for k in (name, name.rstrip("_"), f"{name}_") if k in fields), None)
            if key is None:
                continue
            value = fields.pop(key)
            constraint = definition.constr
            if value is None or (value is False and getattr(constraint, "wire", "") == "unit"):
                continue
            found[name] = _property(cls, name, constraint, value)
        for name, definition in definitions.items():
            optional = (
                isinstance(definition, OptPropertyDef) or definition.default_value is not None
            )
            if name not in found and not optional and name != SEGMENTS:
                choices = ""
                if isinstance(definition.constr, FieldKind) and definition.constr.wire == "enum":
                    choices = f": {definition.constr.description}"
                raise TypeError(f"{cls.mnemonic()} needs {name}={choices}")
        return found

    def _materialised(
        self, cls: type[TileOp], groups: dict[str, list[Any]]
    ) -> dict[str, list[SSAValue]]:
        """Turn numbers into constants of the type that the operation requires there."""
        known: dict[str, list[SSAValue]] = {}
        for name, values in groups.items():
            known[name] = [
                v if isinstance(v, SSAValue) else self._number(cls, groups, name, v) for v in values
            ]
        return known

    def _number(
        self, cls: type[TileOp], groups: dict[str, list[Any]], name: str, value: Any
    ) -> SSAValue:
        ty = constant_type(cls, groups, name)
        if ty is None and shape_of(value) != () and hasattr(value, "dtype"):
            ty = tile(shape_of(value), element_of_dtype(value.dtype))
        if ty is None:
            raise TypeError(
                f"the type of a number for operand '{name}' of {cls.mnemonic()} is not known; use "
                "constant(value, type)"
            )
        return self.constant_for(cls.mnemonic(), value, ty).ssa

    # Constants and views

    def constant(self, value: Any, type: TypeLike | None = None) -> Value:
        """A constant tile: a number fills it; nested lists and NumPy arrays give the elements in row-major order.

        ``type`` is a tile type, or an element type's spelling for a scalar; of an array it may be left out, and follows
        from its shape and dtype. Unsigned integers keep their bits, floats are rounded to nearest. Raises
        ``BuilderError`` where the number of elements or the shape is not that of the type, and for numbers that an
        integer type cannot hold.
        """
        return self.constant_for("constant", value, type)

    def constant_for(self, what: str, value: Any, type: TypeLike | None = None) -> Value:
        """A constant for an operation or operator named ``what``, to which errors are attributed.

        ``value`` and ``type`` are those of ``constant``. Raises ``BuilderError`` as it does.
        """
        try:
            if type is None:
                if not hasattr(value, "dtype"):
                    raise TypeError("a constant needs its type, unless it is an array of NumPy")
                type = tile(shape_of(value), element_of_dtype(value.dtype))
            ty = type_like(type)
            if not isinstance(ty, T.TileType):
                raise TypeError(f"the type of a constant is a tile, not {format_type(ty)}")
            attribute = constant_attribute(value, ty)
        except (TypeError, ValueError, OverflowError, VerifyException) as error:
            fail(what, str(error).split("\n", 1)[0])
        return self.append(
            OPERATIONS["constant"].create(properties={"value": attribute}, result_types=[ty])
        )

    def make_tensor_view(self, base: Any, shape: Sequence[Any], strides: Sequence[Any]) -> Value:
        """A tensor view; entries of ``shape`` and ``strides`` are numbers or scalar values.

        There are as many strides as extents, outermost axis first, and both count elements. Numbers become part
        of the type, values stay dynamic. ``base`` is a scalar pointer to the element type. Raises
        ``BuilderError`` if it is none, and for shapes and strides that form no view type.
        """
        pointer = base.type if isinstance(base, Value | SSAValue) else None
        pointee = pointer.element_type if isinstance(pointer, T.TileType) else None
        if not isinstance(pointee, T.PtrType):
            fail("make_tensor_view", "operand 'base' is not a pointer")
        for name, extents in (("shape", shape), ("strides", strides)):
            if not listed(extents, _is_extent):
                fail(
                    "make_tensor_view",
                    f"{name} is a list of numbers and values, not {extents!r:.60}",
                )
        dims = [int(d) if is_number(d) else T.DYNAMIC for d in shape]
        steps = [int(s) if is_number(s) else T.DYNAMIC for s in strides]
        ptr_attr = getattr(pointee.ptr_attr, "data", None)
        return self.op(
            "make_tensor_view",
            base,
            [d for d in shape if not is_number(d)],
            [s for s in strides if not is_number(s)],
            type=self._type(
                "make_tensor_view",
                lambda: T.TensorViewType(pointee.pointee, dims, steps, ptr_attr),
            ),
        )

    @checked("make_partition_view")
    def partition(
        self,
        view: Any,
        tile: Sequence[int],
        *,
        dim_map: Sequence[int] | None = None,
        padding: str | None = None,
    ) -> Value:
        """``make_partition_view`` over a tensor view.

        Tile index i begins at element ``i * tile[d]`` of each axis d. ``tile`` has the rank of the view, its extents
        are powers of two, in elements. Axis d of the tile walks axis ``dim_map[d]`` of the tensor, by default d.
        ``padding`` (``zero``, ``neg_zero``, ``nan``, ``pos_inf`` or ``neg_inf``) is what elements outside of the tensor
        read as; without it they are undefined. Raises ``BuilderError`` if ``view`` is no tensor view, and for a
        tile, a map or a padding that the view cannot have.
        """
        viewed = self._tensor_view("make_partition_view", view)
        ty = self._type(
            "make_partition_view",
            lambda: T.PartitionViewType(tile, viewed, dim_map, _padding(padding)),
        )
        return self.op("make_partition_view", view, type=ty)

    @checked("make_strided_view")
    def strided(
        self,
        view: Any,
        tile: Sequence[int],
        traversal_strides: Sequence[int],
        *,
        dim_map: Sequence[int] | None = None,
        padding: str | None = None,
    ) -> Value:
        """``make_strided_view`` over a tensor view.

        Tile index i begins at element ``i * traversal_strides[d]`` of each axis d, so that tiles may overlap or
        leave gaps. The other arguments, and the errors, are those of ``partition``.
        """
        viewed = self._tensor_view("make_strided_view", view)
        ty = self._type(
            "make_strided_view",
            lambda: T.StridedViewType(tile, traversal_strides, viewed, dim_map, _padding(padding)),
        )
        return self.op("make_strided_view", view, type=ty)

    @checked("make_gather_scatter_view")
    def gather_scatter(
        self, view: Any, tile: Sequence[int], sparse_dim: int, *, padding: str | None = None
    ) -> Value:
        """``make_gather_scatter_view`` over a tensor view.

        Along ``sparse_dim`` (from 0) each row of the tile has an element index of its own, from a tile of rank 1;
        along the other axes one index gives the first element. ``tile``, ``padding`` and the errors are those of
        ``partition``.
        """
        viewed = self._tensor_view("make_gather_scatter_view", view)
        ty = self._type(
            "make_gather_scatter_view",
            lambda: T.GatherScatterViewType(tile, viewed, sparse_dim, _padding(padding)),
        )
        return self.op("make_gather_scatter_view", view, type=ty)

    def _tensor_view(self, what: str, view: Any) -> T.TensorViewType:
        ty = view.type if isinstance(view, Value | SSAValue) else None
        if not isinstance(ty, T.TensorViewType):
            found = f"{view!r:.60}" if ty is None else format_type(ty)
            fail(what, f"operand 'tensor_view' is a view that make_tensor_view gives, not {found}")
        return ty

    def _type(self, what: str, make: Callable[[], _T]) -> _T:
        try:
            return make()
        except (TypeError, ValueError, AttributeError, VerifyException) as error:
            fail(what, str(error).split("\n", 1)[0])

    # Regions

    @contextmanager
    def inside(self, block: Block, loop: Loop | None = None) -> Iterator[None]:
        """Append to another block during the context, the body of ``loop`` if given. Its operations may use
        values of the enclosing blocks."""
        self._open.append(block)
        if loop is not None:
            self._loops.append(loop)
        try:
            yield
        finally:
            self._open.pop()
            if loop is not None:
                self._loops.pop()

    @checked("if")
    def if_(
        self,
        condition: Any,
        then: Body | None = None,
        otherwise: Body | None = None,
        **values: Any,
    ) -> Any:
        """Build an ``if``.

        Without functions, for use with ``with``; see :class:`IfBranches`. Otherwise each branch is a
        function that builds it and returns what it yields, and the results are returned as a tuple. ``condition``
        is a scalar i1. Raises ``BuilderError`` if the branches yield different types.
        """
        branches = IfBranches(self, condition, values)
        self._last_if = None
        if then is None:
            return branches
        return branches.build_from(then, otherwise)

    @checked("if")
    def else_(self) -> IfBranches:
        """The else branch of the ``if`` directly before: ``with k.else_():``.

        Raises ``BuilderError`` if anything was appended since, or if there was no ``if``.
        """
        if self._last_if is None:
            fail("if", "else_ must directly follow an if_")
        return self._last_if.else_()

    @checked("for")
    def for_(
        self,
        lower: Any,
        upper: Any = None,
        step: Any = 1,
        carried: Sequence[Any] = (),
        body: Body | None = None,
        *,
        unsigned: bool = False,
        **values: Any,
    ) -> Any:
        """Build a ``for``; with one bound, from 0.

        ``upper`` is not reached; bounds and ``step`` are scalar integers of one type, compared as signed unless
        ``unsigned``. Without ``body``, for use with ``with``; see :class:`ForLoop`. Otherwise ``body(builder, index,
        *carried)`` returns the values for the next iteration, and the results are returned as a tuple. Raises
        ``BuilderError`` for next values of other types than those carried.
        """
        bounds = (0, lower, step) if upper is None else (lower, upper, step)
        loop = ForLoop(self, bounds, carried, values, unsigned)
        return loop if body is None else loop.build_from(body)

    @checked("loop")
    def loop_(
        self,
        carried: Sequence[Any] = (),
        body: Body | None = None,
        result_types: Sequence[TypeLike] | None = None,
        **values: Any,
    ) -> Any:
        """Build a ``loop``, which is left by a ``break_`` in a branch of an ``if_``.

        Without ``body``, for use with ``with``; see :class:`WhileLoop`. With it, ``result_types`` are the types of
        the operands of its breaks, by default none. Raises ``BuilderError`` for next values of other types than those
        carried, and for breaks that differ from the results.
        """
        types: list[Attribute] | None = None
        if result_types is not None:
            types = self._type("loop", lambda: [type_like(ty) for ty in result_types])
        if body is not None and types is None:
            types = []
        loop = WhileLoop(self, carried, values, types)
        return loop if body is None else loop.build_from(body)

    @checked("break")
    def break_(self, operands: Sequence[Any] | None = None) -> Operation:
        """Leave the ``loop`` with these values, by default the current values of its names.

        Raises ``BuilderError`` outside of a loop and in a ``for``, which has no early exit.
        """
        return self.op("break", self._outgoing("break", operands))

    @checked("continue")
    def continue_(self, operands: Sequence[Any] | None = None) -> Operation:
        """End the iteration with these values, by default the current values of the loop's names.

        Raises ``BuilderError`` outside of a loop, and for values of other types than those carried.
        """
        return self.op("continue", self._outgoing("continue", operands))

    def _outgoing(self, what: str, operands: Sequence[Any] | None) -> Sequence[Any]:
        if not self._loops:
            fail(what, "is not in a loop of this kernel")
        loop = self._loops[-1]
        given: Any = loop.current(what) if operands is None else operands
        values = list(given) if isinstance(given, Sequence) else [given]
        return loop.break_values(values) if what == "break" else loop.next_values(values)

    def ended(self, branches: IfBranches) -> None:
        """Called by an ``if`` at the end of a branch: the next ``else_`` may belong to it."""
        self._last_if = branches

    # Reductions

    @checked("reduce")
    def reduce(self, operands: Any, dim: int, identities: Any, body: Body) -> Any:
        """Build a ``reduce``; ``body(builder, a, b, ...)`` combines a pair for each operand.

        ``operands`` is a tile or a list of tiles of one shape, ``dim`` the axis that the results lack, ``identities`` a
        number for each operand. ``a`` and ``b`` are scalars, and so is what the body returns. Raises ``BuilderError``
        for an axis that the tiles do not have, and for identities that their elements cannot hold.
        """
        return self._fold("reduce", operands, dim, identities, body, {})

    @checked("scan")
    def scan(
        self, operands: Any, dim: int, identities: Any, body: Body, *, reverse: bool = False
    ) -> Any:
        """Build an inclusive ``scan``, from the last element down if ``reverse``.

        Results have the shapes of the operands; arguments and errors are those of ``reduce``.
        """
        extra: dict[str, Attribute] = {"reverse": BoolAttr.from_bool(reverse)}
        return self._fold("scan", operands, dim, identities, body, extra)

    def _fold(
        self,
        mnemonic: str,
        operands: Any,
        dim: int,
        identities: Any,
        body: Body,
        extra: dict[str, Attribute],
    ) -> Any:
        from tilewright.dialects.cuda_tile.ops.control_flow import YieldOp
        from tilewright.dialects.cuda_tile.ops.reductions import ReduceOrScan, identity

        given = list(operands) if isinstance(operands, Sequence) else [operands]
        values = [v.ssa if isinstance(v, Value) else v for v in given]
        numbers = list(identities) if isinstance(identities, Sequence) else [identities]
        types = [getattr(v, "type", None) for v in values]
        tiles = [ty for ty in types if isinstance(ty, T.TileType)]
        if len(tiles) != len(values) or len(numbers) != len(values) or not values:
            fail(mnemonic, f"takes tiles and an identity for each, got {given} and {numbers}")
        if not all(0 <= dim < t.rank for t in tiles):
            fail(mnemonic, f"{dim} is not an axis of {', '.join(map(format_type, tiles))}")
        cls = OPERATIONS[mnemonic]
        assert issubclass(cls, ReduceOrScan)
        block = Block(arg_types=[T.tile((), t.element_type) for t in tiles for _ in range(2)])
        self.fill(mnemonic, block, body, YieldOp)
        try:
            scalars = [
                identity(t.element, element_bits(n, t.element))
                for t, n in zip(tiles, numbers, strict=True)
            ]
        except (TypeError, ValueError) as error:
            fail(mnemonic, str(error))
        properties: dict[str, Attribute] = {
            "dim": IntegerAttr(dim, builtin_i32),
            "identities": ArrayAttr(scalars),
            **extra,
        }
        made = cls.create(operands=values, properties=properties)
        results = [made.result_type(t, dim) for t in tiles]
        made = cls.create(
            operands=values, properties=properties, regions=[Region(block)], result_types=results
        )
        return self.append(made)

    def fill(
        self,
        what: str,
        block: Block,
        body: Body,
        terminator: type[TileOp],
        loop: Loop | None = None,
    ) -> list[SSAValue] | None:
        """Build a block of an operation by a function. It ends with the returned values, unless it already
        has a terminator; then the result is None.

        Raises ``BuilderError``, as part of an operation named ``what``, if ``body`` does not take the builder and
        the arguments of the block.
        """
        arguments = [Value(self, a) for a in block.args]
        _check_takes(what, body, self, *arguments)
        with self.inside(block, loop):
            returned = body(self, *arguments)
            if is_terminator(block.last_op):
                return None
            if returned is None:
                listed: Sequence[Any] = ()
            else:
                listed = returned if isinstance(returned, Sequence) else [returned]
            values = list(listed) if loop is None else loop.next_values(listed)
            made = self.op(terminator.mnemonic(), values)
        return list(made.operands)


def _is_extent(value: object) -> bool:
    return is_integer(value) or isinstance(value, Value | SSAValue)


def _padding(padding: str | None) -> PaddingValue | None:
    known = [str(value) for value in PaddingValue]
    if padding is not None and padding not in known:
        raise ValueError(f"padding is one of {', '.join(known)}, not {padding!r}")
    return None if padding is None else PaddingValue(padding)


def _check_takes(what: str, body: Body, *arguments: object) -> None:
    """Check that a function that builds a body accepts the builder and the block's values."""
    try:
        signature = inspect.signature(body)
    except (TypeError, ValueError):  # for functions written in C
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        values = len(arguments) - 1
        fail(
            what,
            f"the function is given the builder and, by value of the block, {values} more: {error}",
        )


def _anything(value: object) -> bool:
    return True


#: For each kind of property, a test of Python values, so that none is converted to another kind.
_IS_KIND: dict[str, Callable[[Any], bool]] = {
    "enum": _anything,  # checked against its members later
    "unit": is_bool,
    "int": is_integer,
    "bool": is_bool,
    "str": lambda value: isinstance(value, str),
    "sym": lambda value: isinstance(value, str),
    "i32s": lambda value: listed(value, is_integer),
    "bools": lambda value: listed(value, is_bool),
    "hints": lambda value: isinstance(value, Mapping),
}


def _property(cls: type[TileOp], name: str, constraint: object, value: Any) -> Attribute:
    """Convert a Python value to a property by its kind."""
    if isinstance(value, Attribute):
        return value
    assert isinstance(constraint, FieldKind)
    makers: dict[str, Callable[[], Attribute]] = {
        "enum": lambda: constraint.enum(constraint.enum.enum_type(value)),
        "unit": UnitAttr,
        "int": lambda: IntegerAttr(int(value), IntegerType(constraint.width)),
        "bool": lambda: BoolAttr.from_bool(bool(value)),
        "str": lambda: StringAttr(value),
        "sym": lambda: SymbolRefAttr(value),
        "i32s": lambda: DenseArrayBase.from_list(builtin_i32, [int(v) for v in value]),
        "bools": lambda: bool_array(value),
        "hints": lambda: hints_attribute(value) or OptimizationHintsAttr({}),
    }
    if (make := makers.get(constraint.wire)) is not None and _IS_KIND[constraint.wire](value):
        try:
            return make()
        except (TypeError, ValueError, AttributeError, VerifyException):
            pass
    raise TypeError(f"{cls.mnemonic()}: {name} is {constraint.description}, not {value!r}")


__all__ = ["Builder", "hints_attribute"]
