"""Layers that stand in for torch's in a stack: the same parameters under the same names, computed by one launch.

Under `vmap` each of them sees its tensors with the run axis and calls a function of stacks; alone it is a stack of one.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_input, conv2d_weight

from scyc.kernel import conv, norm
from scyc.kernel.tiles import Geometry
from scyc.model.resnet import Residual

Call = Callable[..., tuple[Tensor, ...]]
DTYPES = {"bf16": torch.bfloat16, "tf32": torch.float32, "float32": torch.float32}  # of activations
NARROW = 64  # channels: from more on, cuDNN run by run is faster


class Lifted(torch.autograd.Function):
    """`call(*arguments)`, whose tensors vmap gives their run axis."""

    @staticmethod
    def forward(call: Call, *arguments: Any) -> tuple[Tensor, ...]:
        raise AssertionError("only vmap calls it")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *arguments: Any) -> tuple[tuple[Tensor, ...], Any]:
        lifted = [
            argument
            if not isinstance(argument, Tensor)
            else argument.expand(info.batch_size, *argument.shape)
            if place is None
            else argument.movedim(place, 0)
            for argument, place in zip(arguments, in_dims[1:], strict=True)
        ]
        outputs = call(*lifted)
        return outputs, (0,) * len(outputs)


def stacked(call: Call, *arguments: Any) -> tuple[Tensor, ...]:
    if any(isinstance(a, Tensor) and torch._C._functorch.is_batchedtensor(a) for a in arguments):
        lifted: tuple[Tensor, ...] = Lifted.apply(call, *arguments)
        return lifted
    return tuple(output[0] for output in call(*(a[None] if isinstance(a, Tensor) else a for a in arguments)))


def rows_last(x: Tensor, dtype: torch.dtype) -> Tensor:
    """(runs, images, channels, height, width) with the channels last in memory and in order."""
    return x.permute(0, 1, 3, 4, 2).to(dtype).contiguous()


def rows_first(x: Tensor) -> Tensor:
    return x.permute(0, 1, 4, 2, 3)


class NarrowConv(torch.autograd.Function):
    """A convolution of few channels, all runs in one launch; hands x on, so that its other use adds no pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, pad: int, how: str) -> tuple[Tensor, Tensor]:
        source = rows_last(x, DTYPES[how])
        outputs, inputs, kernel = weight.shape[1], weight.shape[2], (weight.shape[3], weight.shape[4])
        ctx.geometry, ctx.how = Geometry(x.shape[3], x.shape[4], inputs, outputs, kernel, stride, pad), how
        ctx.save_for_backward(source, weight)
        ctx.set_materialize_grads(False)
        return rows_first(conv.forward(source, weight, ctx.geometry, how)), x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, passed: Tensor | None) -> Any:
        source, weight = ctx.saved_tensors
        grad, dx, dw = rows_last(dy, source.dtype), None, None
        if ctx.needs_input_grad[0]:
            added = None if passed is None else rows_last(passed, source.dtype)
            dx = rows_first(conv.input_gradient(grad, weight, ctx.geometry, ctx.how, added))
        if ctx.needs_input_grad[1]:
            dw = conv.weight_gradient(source, grad, ctx.geometry, ctx.how)
        return dx, dw, None, None, None


class WideConv(torch.autograd.Function):
    """A convolution of many channels: cuDNN, run by run."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, pad: int, how: str) -> Tensor:
        source, ctx.how = rows_first(rows_last(x, DTYPES[how])), (stride, pad)
        ctx.save_for_backward(source, weight)
        return joined([conv2d(a, b, None, stride, pad) for a, b in zip(source, last(weight, source), strict=True)])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        source, weight = ctx.saved_tensors
        grad, dx, dw = rows_first(rows_last(dy, source.dtype)), [], []
        for a, b, g in zip(source, last(weight, source), grad, strict=True):
            if ctx.needs_input_grad[0]:
                dx.append(conv2d_input(a.shape, b, g, *ctx.how))
            dw.append(conv2d_weight(a, b.shape, g, *ctx.how))
        return joined(dx) if dx else None, joined(dw).to(weight.dtype), None, None, None


def last(weight: Tensor, like: Tensor) -> list[Tensor]:
    """The runs' weights, channels last, as cuDNN likes them."""
    return [one.contiguous(memory_format=torch.channels_last) for one in weight.to(like.dtype)]


def joined(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts) if len(parts) > 1 else parts[0][None]


class StackedConv(nn.Module):
    """In place of a plain `nn.Conv2d`."""

    def __init__(self, layer: nn.Conv2d, how: str) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.fixed = (layer.stride[0], int(layer.padding[0]), how)
        self.narrow = max(layer.in_channels, layer.out_channels) <= NARROW

    def forward(self, x: Tensor) -> Tensor:
        return self.handing_on(x)[0]

    def handing_on(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output, and x for whoever else uses it: so its two gradients become one as the first is computed."""
        if self.narrow:
            y, x = stacked(lambda *t: NarrowConv.apply(*t, *self.fixed), x, self.weight)
        else:
            (y,) = stacked(lambda *t: (WideConv.apply(*t, *self.fixed),), x, self.weight)
        return (y if self.bias is None else y + self.bias.to(y.dtype)[:, None, None]), x


class NormalisedRows(torch.autograd.Function):
    """Batch normalisation, shortcut and ReLU over (runs, rows, channels)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, shortcut: Tensor | None, *rest: Any) -> Tensor:
        running_mean, running_var, eps, momentum, training, relu = rest
        if training:
            mean, scale = norm.statistics(x, running_mean, running_var, eps, momentum)
        else:
            mean, scale = running_mean.contiguous(), torch.rsqrt(running_var + eps)
        y = norm.forward(x, mean, scale, gamma, beta, shortcut, relu)
        ctx.save_for_backward(x, y if relu and shortcut is not None else x, mean, scale, gamma, beta)
        ctx.how = (shortcut is not None, relu, training)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, y, mean, scale, gamma, beta = ctx.saved_tensors
        dx, dshortcut, dgamma, dbeta = norm.backward(dy.contiguous(), x, y, mean, scale, gamma, beta, *ctx.how)
        return dx, dgamma, dbeta, dshortcut, None, None, None, None, None, None


class StackedNorm(nn.Module):
    """In place of `nn.BatchNorm1d` or `nn.BatchNorm2d`, with the sum and the ReLU that may follow it."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        for name, buffer in layer.named_buffers():
            self.register_buffer(name, buffer)
        self.eps, self.momentum, self.relu, self.dtype = layer.eps, layer.momentum, False, dtype

    def forward(self, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
        state = (self.weight, self.bias, self.running_mean, self.running_var, self.num_batches_tracked)
        return stacked(self.all_runs, x, *state, *(() if shortcut is None else (shortcut,)))[0]

    def all_runs(self, x: Tensor, gamma: Tensor, beta: Tensor, *state: Tensor) -> tuple[Tensor]:
        running_mean, running_var, tracked, *added = state
        if self.training:
            tracked.add_(1)
        fixed = (running_mean, running_var, self.eps, self.momentum, self.training, self.relu)
        if x.dim() == 3:
            rows = x.to(self.dtype).contiguous()
            return (NormalisedRows.apply(rows, gamma, beta, None, *fixed),)
        last = rows_last(x, self.dtype)
        shortcut = rows_last(added[0], self.dtype).flatten(1, 3) if added else None
        y = NormalisedRows.apply(last.flatten(1, 3), gamma, beta, shortcut, *fixed)
        return (rows_first(y.view_as(last)),)


class FusedResidual(nn.Module):
    """In place of `Residual`: the last normalisation of the residual, the sum and the ReLU are one pass."""

    def __init__(self, block: Residual) -> None:
        super().__init__()
        self.residual, self.shortcut = block.residual, block.shortcut

    def forward(self, x: Tensor) -> Tensor:
        first, *layers, final = self.residual.children()
        y, x = first.handing_on(x) if isinstance(first, StackedConv) else (first(x), x)
        for layer in layers:
            y = layer(y)
        total: Tensor = final(y, self.shortcut(x))
        return total


class AddedLinear(torch.autograd.Function):
    """x W' + b of every run, each product one batched call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        source, narrow = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(source, narrow)
        ctx.dtypes = weight.dtype, x.dtype
        return torch.baddbmm(bias.to(dtype)[:, None, :], source, narrow.mT)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        source, weight = ctx.saved_tensors
        dy = dy.to(source.dtype)
        dx = torch.bmm(dy, weight).to(ctx.dtypes[1]) if ctx.needs_input_grad[0] else None
        return dx, torch.bmm(dy.mT, source).to(ctx.dtypes[0]), dy.sum(1, dtype=ctx.dtypes[0]), None


class StackedLinear(nn.Module):
    """In place of `nn.Linear`."""

    def __init__(self, layer: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias, self.dtype = layer.weight, layer.bias, dtype

    def forward(self, x: Tensor) -> Tensor:
        arguments = (x, self.weight, self.bias)
        return stacked(lambda *t: (AddedLinear.apply(*t, self.dtype),), *arguments)[0]


class Average(nn.Module):
    """In place of `nn.AdaptiveAvgPool2d(1)`, which vmap copies."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1), keepdim=True)


def replace_(net: nn.Module, precision: str) -> nn.Module:
    """Put stacked layers in place of torch's wherever one does the same; everything else goes vmap's general road."""
    dtype = DTYPES[precision]
    for path, module in list(net.named_modules()):
        if type(module) is nn.Conv2d and plain(module):
            net.set_submodule(path, StackedConv(module, precision))
        elif type(module) is nn.Linear and module.bias is not None:
            net.set_submodule(path, StackedLinear(module, dtype))
        elif type(module) is nn.AdaptiveAvgPool2d and module.output_size in (1, (1, 1)):
            net.set_submodule(path, Average())
        elif type(module) in (nn.BatchNorm1d, nn.BatchNorm2d) and tracking(module):
            net.set_submodule(path, StackedNorm(module, dtype))
    for module in list(net.modules()):
        if isinstance(module, nn.Sequential):
            absorb_(module)
    for path, module in list(net.named_modules()):
        if type(module) is not Residual or not relu(module.activation):
            continue
        norm_last = last_of(module.residual)
        if isinstance(norm_last, StackedNorm):
            norm_last.relu = True
            net.set_submodule(path, FusedResidual(module))
    return net


def absorb_(sequence: nn.Sequential) -> None:
    """A ReLU right after a normalisation becomes part of it."""
    names = list(sequence._modules)
    for here, after in pairwise(names):
        layer, following = sequence._modules[here], sequence._modules[after]
        if isinstance(layer, StackedNorm) and following is not None and relu(following):
            layer.relu = True
            sequence._modules[after] = nn.Identity()


def last_of(module: nn.Module) -> nn.Module:
    return list(module.children())[-1] if isinstance(module, nn.Sequential) and len(module) else module


def relu(module: nn.Module) -> bool:
    return type(module) is nn.ReLU


def plain(layer: nn.Conv2d) -> bool:
    square = layer.stride[0] == layer.stride[1] and layer.padding == (layer.padding[0],) * 2
    return square and layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"


def tracking(layer: nn.Module) -> bool:
    return bool(layer.affine and layer.track_running_stats and layer.momentum is not None)
