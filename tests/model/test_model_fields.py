import math

import pytest
import torch

from scyc.model import MODELS

EVERY = sorted(MODELS)


def refusal(name: str, *arguments: object, **fields: object) -> str:
    with pytest.raises(ValueError) as caught, torch.device("meta"):
        MODELS[name](*(arguments or ((3, 32, 32), 10)), **fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("width", [0, -1.0, math.nan, math.inf])
def test_width_is_above_zero(name: str, width: float) -> None:
    message = refusal(name, width=width)
    assert f"width = {width};" in message
    assert "above 0" in message


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5, math.nan])
def test_dropout_is_a_share(name: str, dropout: float) -> None:
    message = refusal(name, dropout=dropout)
    assert f"dropout = {dropout};" in message
    assert "[0, 1)" in message


@pytest.mark.parametrize("name", EVERY)
def test_an_unknown_activation_names_the_nearest(name: str) -> None:
    assert refusal(name, activation="rleu") == "unknown activation 'rleu'; did you mean 'relu'?"


@pytest.mark.parametrize("name", ["vgg16", "vgg19", "vgg19_light"])
@pytest.mark.parametrize("shape", [(3, 31, 32), (3, 32, 31)])
def test_vgg_needs_images_of_32_pixels(name: str, shape: tuple[int, int, int]) -> None:
    message = refusal(name, shape, 10)
    assert name in message
    assert f"{shape[1]}x{shape[2]} are too small" in message
    assert "at least 32x32" in message


def test_alexnet_resizes_to_63_pixels_at_least() -> None:
    assert "resize = 62; give at least 63" in refusal("alexnet", resize=62)
    net = MODELS["alexnet"]((3, 32, 32), 10, width=0.02, resize=63)
    assert net(torch.rand(1, 3, 32, 32)).shape == (1, 10)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("shape", [(0, 32, 32), (3, 0, 32), (32, 32)])
def test_the_shape_is_of_channels_height_width(name: str, shape: tuple[int, ...]) -> None:
    message = refusal(name, shape, 10)
    assert f"{shape}" in message
    assert "(channels, height, width)" in message


@pytest.mark.parametrize("name", EVERY)
def test_there_is_at_least_one_class(name: str) -> None:
    assert f"model {name}: classes = 0;" in refusal(name, (3, 32, 32), 0)


def test_hidden_layers_have_at_least_one_unit() -> None:
    assert "widths = (8, 0);" in refusal("mlp", widths=(8, 0))
    assert "dropout = 1;" in refusal("mlp", widths=(), dropout=1)
    assert "width = 0;" in refusal("mlp", widths=(), width=0)


def test_no_hidden_layer_leaves_a_linear_classifier() -> None:
    net = MODELS["mlp"]((1, 2, 2), 3, widths=())
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 4), (3,)]
