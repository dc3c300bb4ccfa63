import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.rand(256, 131072) if BIG else torch.rand(4, 32768)]


def get_init_inputs():
    return []
