import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = torch.nn.BatchNorm2d(64 if BIG else 8)

    def forward(self, x):
        return self.bn(x)


def get_inputs():
    return [torch.randn(64, 64, 32, 32) * 3 + 1 if BIG else torch.randn(4, 8, 8, 8) * 3 + 1]


def get_init_inputs():
    return []
