import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(0)


def get_inputs():
    return [torch.randn(65536, 512) if BIG else torch.randn(512, 64)]


def get_init_inputs():
    return []
