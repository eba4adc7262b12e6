"""Rules of pipelines that look at more than one operation: copies that fill stages, and who takes which place."""

from __future__ import annotations

from typing import Any

_PIPE = "nv_tileas.async.pipeline"
_IT, _STAGE, _TOKEN = (
    f"!nv_tileas.{name}" for name in ("pipeline_iterator", "stage", "async_token")
)
_VIEW = "!nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>"
_STORAGE = "!nv_tileas.tiled_view<{0}8x16xf32, smem{1}>"


def _ring(body: str, layout: str = "") -> str:
    """A ring of three stages around a body, whose ``PIPE`` and ``SLOT`` are its types."""
    held, slot = (_STORAGE.format(stages, layout) for stages in ("3x", ""))
    pipe = f"!nv_tileas.pipeline<3, {slot}>"
    text = f"""
%s = nv_tileas.alloc_tensor : {held}
%p = {_PIPE}.create_pipeline %s : {held} -> PIPE
%it = {_PIPE}.create_iterator %p : PIPE -> {_IT}
%d = nv_tileas.make_tiled_tma_desc %view {{order = array<i64: 0, 1>, box = array<i64: 8, 16>}} : {_VIEW} -> !nv_tileas.tma_desc
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
{body}"""
    return text.replace("PIPE", pipe).replace("SLOT", slot)


def _take(iterator: str, name: str, side: str = "consumer") -> str:
    """A consumer, or a producer, that takes the stage of an iterator and does all that it must."""
    if side == "consumer":
        return f"""
%{name} = {_PIPE}.consumer_wait %p, {iterator} : PIPE, {_IT} -> {_STAGE}
%{name}v = {_PIPE}.consumer_read %p, %{name} : PIPE, {_STAGE} -> SLOT
{_PIPE}.consumer_release %p, %{name} : PIPE, {_STAGE}"""
    return f"""
%{name} = {_PIPE}.producer_acquire %p, {iterator} : PIPE, {_IT} -> {_STAGE}
%{name}v = {_PIPE}.producer_write %p, %{name} : PIPE, {_STAGE} -> SLOT
{_copy(name)}
{_PIPE}.producer_commit %p, %{name} : PIPE, {_STAGE}"""


def _copy(name: str, desc: str = "%d") -> str:
    return (
        f"%{name}u = nv_tileas.async.tiled_tma_load {desc}[%i, %j], %{name}v, %{name} {{tx_count = 512 : i64}} : "
        f"!nv_tileas.tma_desc, index, index, SLOT, {_STAGE} -> {_TOKEN}"
    )


def _next(iterator: str, name: str) -> str:
    return f"%{name} = {_PIPE}.inc_iter %p, {iterator} : PIPE, {_IT} -> {_IT}"


def _loop(body: str, result: str, name: str = "r", start: str = "%it") -> str:
    return f"""
%{name} = scf.for %{name}i = %zero to %n step %one iter_args(%{name}a = {start}) -> ({_IT}) : i32 {{
{body}
scf.yield {result} : {_IT}
}}"""


def fills(copies: int = 1, elsewhere: bool = False) -> str:
    """A stage that so many copies fill, one of them in a branch."""
    whole = _take("%it", "w", "producer")
    lines = "\n".join(_copy("w").replace("%wu", f"%wu{number}") for number in range(copies))
    if elsewhere:
        lines = f"scf.if %c {{\n{lines}\n}} else {{\n}}"
    return _ring(whole.replace(_copy("w"), lines))


def lies(places: str, side: str = "load") -> str:
    """A stage, or what is stored, whose elements lie at these places."""
    layout = f", #nv_tileas.shared<[{places}]>"
    if side == "load":
        return _ring(_take("%it", "w", "producer"), layout)
    ty = _STORAGE.format("", layout)
    return (
        _ring("")
        + f"""
%out = nv_tileas.alloc_tensor : {ty}
nv_tileas.copy %tile, %out : tile<8x16xf32>, {ty}
nv_tileas.async.tiled_tma_store %d[%i, %j], %out : !nv_tileas.tma_desc, index, index, {ty}
nv_tileas.async.store_wait %out {{pending = 0 : i64, read}} : {ty}"""
    )


def boxes(box: str = "8, 16", tile: str = "8x16") -> str:
    """A copy by boxes of these extents, of a view with such tiles."""
    cut = tile.replace("x", ", ")
    view = _VIEW.replace("8x16", tile)
    return _ring(_take("%it", "w", "producer").replace(" %d[", " %e[")).replace(
        "%zero = arith",
        f"%cut = nv_tileaa.block_tile %mr {{dimGroups = [[0], [1]], tileSizes = array<i64: {cut}>}} : "
        f"!nv_tileaa.memref<?x?xf32, 1> -> {view}\n"
        f"%e = nv_tileas.make_tiled_tma_desc %cut {{order = array<i64: 0, 1>, box = array<i64: {box}>}} : {view} -> "
        "!nv_tileas.tma_desc\n%zero = arith",
        1,
    )


def twice(second: str = "%it", side: str = "consumer") -> str:
    """Two takes, of the first stage and another one."""
    return _ring(
        "\n".join((_take("%it", "s1", side), _next("%it", "next"), _take(second, "s2", side)))
    )


def in_branches(second: str = "else", side: str = "consumer") -> str:
    """The first stage is taken in a branch, and in the other one, or behind both."""
    take, other = _take("%it", "s1", side), _take("%it", "s2", side)
    inside, behind = (other, "") if second == "else" else ("", other)
    return _ring(f"scf.if %c {{\n{take}\n}} else {{\n{inside}\n}}\n{behind}")


def rounds(result: str = "%more", side: str = "consumer", taken: str = "%ra") -> str:
    """A loop that takes a stage in each iteration, and goes on with this iterator."""
    return _ring(_loop("\n".join((_take(taken, "s1", side), _next("%ra", "more"))), result))


def two_loops(start: str = "%r") -> str:
    """A loop behind another one, which begins at this stage."""
    loops = [
        _loop("\n".join((_take(f"%{n}a", f"{n}w"), _next(f"%{n}a", f"{n}m"))), f"%{n}m", n, given)
        for n, given in (("r", "%it"), ("z", start))
    ]
    return _ring("\n".join(loops))


def begins(first: str = "%it", side: str = "consumer") -> str:
    """A loop that begins with the first stage, or one behind it."""
    other = "producer" if side == "consumer" else "consumer"
    body = "\n".join((_take("%ra", "s1", side), _next("%ra", "more")))
    return _ring(
        "\n".join(
            (_next("%it", "behind"), _take("%it", "s3", other), _loop(body, "%more", "r", first))
        )
    )


def goes_through_a_branch(result: str) -> str:
    """A branch takes the first stage, and gives one from which a loop goes on."""
    body = "\n".join((_take("%ra", "s1"), _next("%ra", "more")))
    branch = f"""
%after = scf.if %c -> ({_IT}) {{
{_take("%it", "s2")}
{_next("%it", "next")}
scf.yield {result} : {_IT}
}} else {{
scf.yield %it : {_IT}
}}"""
    return _ring("\n".join((branch, _loop(body, "%more", "r", "%after"))))


_PROTOCOL, _TMA, _SHAPE = "as-pipeline-protocol", "as-tma", "as-view-shape"
_ONE_COPY = "of the stage in the block of its producer_acquire, got"
_BEFORE = "the stage of this iterator is taken before, by"
_WAIT, _ACQUIRE = "async.pipeline.consumer_wait", "async.pipeline.producer_acquire"
_LOAD, _STORE = "async.tiled_tma_load", "async.tiled_tma_store"
_UNLIKE, _LIKE = "1, 2, 4, 8, 16, 32, 64", "1, 2, 4, 8, 16, 36, 72"

#: Operation, code, message, how the program is made, what is wrong, and what would be right.
RINGS: list[Any] = [
    (_ACQUIRE, _PROTOCOL, f"{_ONE_COPY} 0", fills, {"copies": 0}, {}),
    (_ACQUIRE, _PROTOCOL, f"{_ONE_COPY} 2", fills, {"copies": 2}, {}),
    (_ACQUIRE, _PROTOCOL, f"{_ONE_COPY} 0", fills, {"elsewhere": True}, {}),
    (
        _LOAD,
        _TMA,
        "boxes of [8, 16] along the axes [0, 1]",
        lies,
        {"places": _UNLIKE},
        {"places": _LIKE},
    ),
    (
        *(_STORE, _TMA, "do not make up", lies),
        *({"places": _UNLIKE, "side": "store"}, {"places": _LIKE, "side": "store"}),
    ),
    (
        _LOAD,
        _TMA,
        "boxes of [4, 16] along the axes [0, 1]",
        boxes,
        {"box": "4, 16"},
        {"box": "8, 8"},
    ),
    (_LOAD, _TMA, "boxes of [8, 32] along the axes [0, 1]", boxes, {"box": "8, 32"}, {}),
    (_LOAD, _SHAPE, "does not fit a tile of", boxes, {"tile": "16x8", "box": "16, 8"}, {}),
    (_WAIT, _PROTOCOL, _BEFORE, twice, {}, {"second": "%next"}),
    (
        _ACQUIRE,
        _PROTOCOL,
        _BEFORE,
        twice,
        {"side": "producer"},
        {"second": "%next", "side": "producer"},
    ),
    (_WAIT, _PROTOCOL, _BEFORE, in_branches, {"second": "behind"}, {}),
    (
        _ACQUIRE,
        _PROTOCOL,
        _BEFORE,
        in_branches,
        {"second": "behind", "side": "producer"},
        {"side": "producer"},
    ),
    (_WAIT, _PROTOCOL, "the iterator of consumer_wait advances", rounds, {"result": "%ra"}, {}),
    (
        _ACQUIRE,
        _PROTOCOL,
        "advances to another one",
        rounds,
        {"result": "%ra", "side": "producer"},
        {},
    ),
    (_WAIT, _PROTOCOL, "the loop around it repeats consumer_wait", rounds, {"taken": "%it"}, {}),
    (_WAIT, _PROTOCOL, "by 'scf.for'", two_loops, {"start": "%it"}, {}),
    (
        "async.pipeline.inc_iter",
        _PROTOCOL,
        "no consumer_wait uses the previous stage",
        begins,
        {"first": "%behind"},
        {},
    ),
    (
        *(
            "async.pipeline.inc_iter",
            _PROTOCOL,
            "no producer_acquire uses the previous stage",
            begins,
        ),
        *({"first": "%behind", "side": "producer"}, {"side": "producer"}),
    ),
    (
        _WAIT,
        _PROTOCOL,
        "advances to another one",
        goes_through_a_branch,
        {"result": "%it"},
        {"result": "%next"},
    ),
]
