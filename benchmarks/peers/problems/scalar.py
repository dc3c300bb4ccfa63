import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return (x * x).sum()


def get_inputs():
    return [torch.randn(4096, 4096) if BIG else torch.randn(32, 256)]


def get_init_inputs():
    return []
