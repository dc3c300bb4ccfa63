# problem: top_one
# about: each row's largest value and its place, as a tuple; among equal values topk leaves the place open, and
# the last one is given
import torch
import triton
import triton.language as tl


@triton.jit
def top(x, values, where, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    best = tl.max(value, 0)
    tl.store(values + row, best)
    tl.store(where + row, tl.max(tl.where(value == best, at, -1), 0).to(tl.int64))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        values = torch.empty(rows, device=x.device)
        where = torch.empty(rows, dtype=torch.int64, device=x.device)
        top[(rows,)](x, values, where, cols, BLOCK=triton.next_power_of_2(cols))
        return values, where
