"""The weights a network starts from."""

from torch import nn


def he_(net: nn.Module) -> nn.Module:
    """He initialisation of every convolution and linear layer, drawn from torch's global generator; biases zero."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            # fan-in: the variance of pre-activations, which the paper's §3.2 follows, is then the same in every layer
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return net
