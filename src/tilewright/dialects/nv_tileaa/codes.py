"""The diagnostic codes of the rules of ``nv_tileaa``."""

from tilewright.diagnostics import define_code

SHAPE = define_code(
    "aa-shape",
    "The shapes of an operation's values do not match.",
    "Element-wise operations take operands of one shape, or scalars. Operations that change "
    "shapes state it in their attributes or types; there is no implicit broadcast.",
)
ELEMENT_TYPE = define_code(
    "aa-element-type",
    "The element types of an operation's values do not match.",
    "Only fp_to_fp, bitcast and the conversions of pointers change element types.",
)
ROUNDING = define_code(
    "aa-rounding-mode",
    "The operation or its element type has no such rounding mode.",
    "addf, subf, mulf and fma round to nearest_even, zero, negative_inf or positive_inf; divf also "
    "takes approx and full, sqrt approx. approx and full exist for f32 only.",
)
FLUSH_TO_ZERO = define_code("aa-flush-to-zero", "flush_to_zero exists for f32 elements only.")
DOT_SHAPE = define_code(
    "aa-dot-shape",
    "The tiles of a dot must be MxK, KxN and MxN, with or without one batch axis in front.",
)
DOT_TYPES = define_code(
    "aa-dot-types",
    "The element types of A, B and C do not combine in a dot.",
    "f16 accumulates in f16 or f32, bf16, tf32 and f32 in f32, f64 in f64, f8E4M3FN, f8E5M2 and "
    "f4E2M1FN in f16 or f32 (f32 only with scale factors), i8 in i32. Only the two f8 types mix.",
)
DOT_SIGNS = define_code(
    "aa-dot-signedness", "Integer operands of a dot have a signedness; float operands do not."
)
DOT_SCALES = define_code(
    "aa-dot-scales",
    "The scale factors of a dot do not match its operands.",
    "Both operands have scale factors or none: sfa is M x K/V and sfb K/V x N. f8 data has "
    "f8E8M0FNU scales with V = 32; f4E2M1FN data has f8E8M0FNU scales with V = 32, or f8E4M3FN "
    "scales with V = 16.",
)
TARGET = define_code(
    "aa-target",
    "The operation needs a target that the module does not specify.",
    "Block-scaled products and formats exist from compute capability 100 on. A module names its "
    "target by `nv_tileaa.compute_capability = 100 : i32` or `nv_tileaa.target_spec`.",
)
CONVOLUTION = define_code(
    "aa-convolution", "The parameters or tiles of a convolution do not match."
)
BODY_ARGUMENTS = define_code(
    "aa-body-arguments", "The body of an operation has the wrong arguments."
)
YIELD_TYPES = define_code(
    "aa-yield-types", "A region yields types that the enclosing operation does not expect."
)
TERMINATOR = define_code(
    "aa-terminator",
    "A region has the wrong terminator, or a terminator is in the wrong region.",
    "return ends func; yield ends reduce, scan, generate and execute; queue.yield ends the regions "
    "of queue.put and queue.get.",
)
IMPURE_BODY = define_code(
    "aa-impure-body",
    "A body that is evaluated for each element has memory effects or takes a tile from outside.",
    "The bodies of reduce, scan and generate may be evaluated in any order and more than once.",
)
AXIS = define_code("aa-axis", "An axis is out of range or named twice.")
COUNT = define_code("aa-count", "An operation has inconsistent counts of operands or results.")
RANGE = define_code(
    "aa-range",
    "The bounds of a range or slice do not match the extents.",
)
ADDRESS_SPACE = define_code(
    "aa-address-space",
    "An address space is changed, or used where it is not visible.",
    "Pointer operations keep the address space. Shared and tensor memory are visible inside the "
    "region of execute only; programs use the global space elsewhere.",
)
PROVENANCE = define_code(
    "aa-provenance",
    "An operation loses the provenance of a pointer.",
    "addptr keeps the pointee; make_memref passes its alias_scope to its result type, and views "
    "keep the memref that they are derived from.",
)
MEMREF_OPERANDS = define_code(
    "aa-memref-operands",
    "make_memref has one size for each dynamic extent and one stride for each dynamic stride.",
)
MEMORY_ORDER = define_code(
    "aa-memory-order",
    "The memory semantic or scope does not exist for this operation.",
    "Loads are weak, relaxed or acquire; stores weak, relaxed or release; atomics relaxed, acquire, "
    "release or acq_rel. weak carries no scope, every other semantic needs one: tl_blk, cluster, "
    "gpu or sys.",
)
CACHE_POLICY = define_code(
    "aa-cache-policy",
    "A cache modifier is combined with a stronger semantic or an eviction policy.",
    "Cache modifiers exist for weak accesses only, and exclude eviction policies.",
)
INDEX_COUNT = define_code(
    "aa-index-count",
    "The number of indices of an access differs from the number of axes of its base.",
)
MASK = define_code("aa-mask", "A mask or fallback value does not match the accessed value.")
TOKEN_ARITY = define_code(
    "aa-token-arity",
    "An operation takes a token but returns none.",
    "An operation that consumes a mem_token also returns one, so that later effects can be "
    "ordered after it. An access without a token operand may still return one.",
)
POINTEE = define_code(
    "aa-pointee", "The element type of the value differs from that of the memory of the base."
)
IN_BOUNDS = define_code("aa-in-bounds", "in_bounds has one boolean for each axis of the access.")
ATOMIC_TYPE = define_code(
    "aa-atomic-type",
    "The element type does not support the atomic operation.",
    "Integer modes work on i32 and i64; addf on f16, bf16, f32 and f64; xchg and compare-and-swap "
    "on i32, i64, f32 and f64.",
)
TILING = define_code("aa-tiling", "tileSizes and dimGroups do not describe a tiling of the memref.")
CONVERSION = define_code("aa-conversion", "The conversion does not exist between these types.")
ASSUMPTION = define_code("aa-assumption", "An assumed fact is malformed or does not fit the value.")
SYMBOL = define_code(
    "aa-unknown-symbol", "A symbol reference does not name an operation of the required kind."
)
SIGNATURE = define_code("aa-signature", "Operands or results do not match the referenced function.")
PARENT = define_code("aa-parent", "An operation is inside one that cannot contain it.")
LEFTOVER = define_code(
    "aa-leftover",
    "A cuda_tile operation remains in an nv_tileaa function.",
    "The lowering replaces all of them; they have no meaning at this level.",
)
FUNCTION = define_code("aa-function", "The signature or specification of a function is invalid.")
GLOBAL = define_code("aa-global", "The type, initial value or alignment of a global is invalid.")
RESOURCES = define_code(
    "aa-resources", "Resource numbers must be positive, and launch extents three."
)
SCRATCH = define_code(
    "aa-scratch", "The number of elements or the alignment of scratch memory is invalid."
)
MULTIMEM = define_code(
    "aa-multimem",
    "The access to multicast memory does not exist.",
    "Multicast memory is accessed through tiled views of i32, i64, f16, bf16, f32 or f64. Floats "
    "are combined by add; tiled_load also by min and max of f16 and bf16. tiled_atomic_rmw is "
    "relaxed or release and exchanges nothing.",
)
QUEUE_TYPES = define_code(
    "aa-queue-types", "The values put into or taken from a queue do not have its types."
)
QUEUE_OPERAND = define_code("aa-queue-operand", "mark_for_reuse takes queues.")
PRINT_FORMAT = define_code(
    "aa-print-format",
    "The number of values of print differs from the number of conversions in its format.",
)
OPERAND_GROUPS = define_code(
    "aa-operand-groups",
    "The operands cannot be divided into the operation's groups.",
    "`operandSegmentSizes` says how many operands each group has, leaving out the token. It may be "
    "left out where the types tell the groups apart.",
)
