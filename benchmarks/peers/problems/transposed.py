import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x)


def get_inputs():
    return [torch.randn(4096, 2048).t() if BIG else torch.randn(64, 32).t()]


def get_init_inputs():
    return []
