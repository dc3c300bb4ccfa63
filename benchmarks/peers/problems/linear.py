import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(512, 512) / 512**0.5)
        self.bias = torch.nn.Parameter(torch.randn(512))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)


def get_inputs():
    return [torch.randn(4096 if BIG else 32, 512)]


def get_init_inputs():
    return []
