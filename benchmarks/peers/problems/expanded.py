import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x, y):
        return x * y


def get_inputs():
    m, n = (4096, 4096) if BIG else (32, 256)
    return [torch.randn(1, n).expand(m, n), torch.randn(m, n)]


def get_init_inputs():
    return []
