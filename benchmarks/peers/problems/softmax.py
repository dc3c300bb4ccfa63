import torch

BIG = torch.cuda.is_available()  # without a GPU, Triton kernels run in the interpreter


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(4096, 4096) * 4 if BIG else torch.randn(32, 256) * 4]  # so that some results are large


def get_init_inputs():
    return []
