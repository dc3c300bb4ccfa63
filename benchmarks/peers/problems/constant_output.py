import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1024, 512) * 0.05)

    def forward(self, x):
        y = x @ self.weight.t()
        y = y.max(1, keepdim=True).values
        return torch.nn.functional.gelu(y - y.mean(1, keepdim=True))


def get_inputs():
    return [torch.randn(4096, 512) if BIG else torch.randn(32, 512)]


def get_init_inputs():
    return []
