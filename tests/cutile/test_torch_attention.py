"""Attention over sequences of different lengths, against attention of one sequence after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402


@pytest.fixture(autouse=True)
def hosted() -> Iterator[None]:
    with pretended_cuda():
        torch.manual_seed(0)
        yield


@pytest.fixture(scope="module")
def varlen() -> Any:
    """It takes a second to import, which only who runs these tests should have to wait for."""
    return pytest.importorskip("torch.nn.attention.varlen", reason="torch has no varlen_attn")


Q_LENGTHS, K_LENGTHS = [3, 0, 7, 1], [5, 2, 7, 4]


def starts(lengths: list[int]) -> Any:
    made = torch.tensor([0, *lengths], device="cuda", dtype=torch.int32)
    return made.cumsum(0, dtype=torch.int32)


def tokens(lengths: list[int], heads: int, kind: Any = torch.float16) -> Any:
    shape = (sum(lengths), heads, 16)
    return torch.randn(*shape, device="cuda", dtype=kind, requires_grad=True)


def by_hand(q: Any, k: Any, v: Any, window: tuple[int, int], scale: float | None) -> Any:
    """Of all sequences, with a loop over queries."""
    results, q_first, k_first = [], 0, 0
    shared = q.shape[1] // k.shape[1]
    for queries, keys in zip(Q_LENGTHS, K_LENGTHS, strict=True):
        for i in range(queries):
            at = i + keys - queries
            low = max(at - window[0], 0) if window[0] >= 0 else 0
            high = min(at + window[1] + 1, keys) if window[1] >= 0 else keys
            for head in range(q.shape[1]):
                seen = slice(k_first + low, k_first + max(high, low))
                one = q[q_first + i, head].double()
                rows, columns = (each[seen, head // shared].double() for each in (k, v))
                scores = rows @ one * (scale or 1 / math.sqrt(16))
                results.append(scores.softmax(0) @ columns if len(scores) else one * 0)
        q_first, k_first = q_first + queries, k_first + keys
    return torch.stack(results).reshape(q.shape)


@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1), (0, 2)], ids=str)
def test_results_and_gradients(
    varlen: Any, heads: tuple[int, int], window: tuple[int, int]
) -> None:
    q, k, v = tokens(Q_LENGTHS, heads[0]), *(tokens(K_LENGTHS, heads[1]) for _ in range(2))
    out, sums = varlen.varlen_attn(
        q,
        k,
        v,
        starts(Q_LENGTHS),
        starts(K_LENGTHS),
        max(Q_LENGTHS),
        max(K_LENGTHS),
        window_size=window,
        enable_gqa=True,
        scale=0.3,
        return_aux=varlen.AuxRequest(lse=True),
    )
    wanted = by_hand(q, k, v, window, 0.3)
    assert out.is_cuda and out.dtype == q.dtype and sums.shape == (heads[0], len(q))
    torch.testing.assert_close(out.double(), wanted, atol=2e-3, rtol=2e-3)
    given = torch.randn_like(out)
    grads = torch.autograd.grad(out, (q, k, v), given)
    exact = torch.autograd.grad(wanted, (q, k, v), given.double())
    for grad, right in zip(grads, exact, strict=True):
        assert grad.is_cuda
        torch.testing.assert_close(grad, right, atol=1e-2, rtol=1e-2)


def test_the_whole_of_one_sequence_is_plain_attention(varlen: Any) -> None:
    q, k, v = (tokens([9], 2, torch.bfloat16) for _ in range(3))
    out = varlen.varlen_attn(q, k, v, starts([9]), starts([9]), 9, 9)
    plain = torch.nn.functional.scaled_dot_product_attention(
        *(each.transpose(0, 1) for each in (q, k, v))
    )
    torch.testing.assert_close(out, plain.transpose(0, 1))


def test_pages_of_keys(varlen: Any) -> None:
    if not hasattr(varlen, "varlen_attn_out"):
        pytest.skip("this torch has no varlen_attn_out, which takes pages")
    lengths, used = [4, 2], [5, 3]
    pages = torch.randn(6, 2, 2, 16, device="cuda", dtype=torch.float16)
    values = torch.randn_like(pages)
    table = torch.tensor([[4, 1, 3], [0, 5, 2]], device="cuda", dtype=torch.int32)
    q = tokens(lengths, 2).detach()
    named = {
        "seqused_k": torch.tensor(used, device="cuda", dtype=torch.int32),
        "block_table": table,
    }
    out = varlen.varlen_attn(q, pages, values, starts(lengths), None, 4, 6, **named)
    plain = [
        cache[table[i].long()].flatten(0, 1)[:count].float()
        for cache in (pages, values)
        for i, count in enumerate(used)
    ]
    parts = []
    for i, one in enumerate(q.float().split(lengths)):
        scores = torch.einsum("qhd,khd->hqk", one, plain[i]) / 4
        parts.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), plain[2 + i]))
    torch.testing.assert_close(out.float(), torch.cat(parts), atol=2e-3, rtol=2e-3)
    given = torch.empty_like(q)
    varlen.varlen_attn_out(given, q, pages, values, starts(lengths), None, 4, 6, **named)
    assert torch.equal(given, out)


def test_types_that_no_kernel_has(varlen: Any) -> None:
    q = torch.randn(4, 2, 16, device="cuda")
    with pytest.raises(RuntimeError, match="only support fp16 and bf16"):
        varlen.varlen_attn(q, q, q, starts([4]), starts([4]), 4, 4)
