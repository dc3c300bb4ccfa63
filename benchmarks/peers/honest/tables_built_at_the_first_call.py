# problem: rotary
# about: cosines and sines depend on sizes alone and are kept
import torch
import triton
import triton.language as tl


@triton.jit
def rotate(x, cosines, sines, y, length, half, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < half
    c = tl.load(cosines + (row % length) * half + at, mask=inside)
    s = tl.load(sines + (row % length) * half + at, mask=inside)
    a = tl.load(x + row * 2 * half + at, mask=inside)
    b = tl.load(x + row * 2 * half + half + at, mask=inside)
    tl.store(y + row * 2 * half + at, a * c - b * s, mask=inside)
    tl.store(y + row * 2 * half + half + at, a * s + b * c, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = None

    def forward(self, x):
        length, half = x.shape[-2], x.shape[-1] // 2
        if self.tables is None or self.tables[0].shape != (length, half):
            rate = 10000.0 ** (-torch.arange(half, device=x.device) / half)
            angle = torch.arange(length, device=x.device)[:, None] * rate
            self.tables = angle.cos(), angle.sin()
        y = torch.empty_like(x)
        rows = x.numel() // (2 * half)
        rotate[(rows,)](x, *self.tables, y, length, half, BLOCK=triton.next_power_of_2(half))
        return y
