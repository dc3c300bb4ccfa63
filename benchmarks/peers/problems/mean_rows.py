import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return x.mean(1)


def get_inputs():
    return [torch.randn(2048 if BIG else 8, 65536)]


def get_init_inputs():
    return []
