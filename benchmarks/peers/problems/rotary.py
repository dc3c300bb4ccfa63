import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 2
        rate = 10000.0 ** (-torch.arange(half, device=x.device) / half)
        angle = torch.arange(x.shape[-2], device=x.device)[:, None] * rate
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


def get_inputs():
    return [torch.randn(64, 1024, 128) if BIG else torch.randn(2, 32, 16)]


def get_init_inputs():
    return []
