import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x)


def get_inputs():
    return [torch.randn(4096, 4096) * 60 if BIG else torch.randn(32, 256) * 60]


def get_init_inputs():
    return []
