import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    m = 1024 if BIG else 32
    return [torch.rand(m, 4096), torch.rand(4096, m)]


def get_init_inputs():
    return []
