import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scyc import mask
from scyc.model import ACTIVATIONS, MODELS
from scyc.model.grid import Grid

NARROW: dict[str, tuple[tuple[int, int, int], float]] = {  # input shape and width, small enough to run everywhere
    "mlp": ((1, 8, 8), 0.1),
    "alexnet": ((1, 8, 8), 0.05),
    "resnet20": ((3, 8, 8), 0.25),
    "resnet50": ((3, 16, 16), 0.05),
    "vgg16": ((3, 32, 32), 0.05),
    "vgg19": ((3, 32, 32), 0.05),
    "vgg19_light": ((3, 32, 32), 0.05),
    "vit": ((3, 8, 8), 0.05),
}


def narrow(name: str, classes: int = 5, **fields: object) -> nn.Module:
    shape, width = NARROW[name]
    return MODELS[name](shape, classes, width=width, **fields)


def test_every_network_has_a_narrow_example() -> None:
    assert set(NARROW) == set(MODELS)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_gives_a_logit_per_class(name: str) -> None:
    torch.manual_seed(0)
    net = narrow(name)
    for mode in (True, False):
        logits = net.train(mode)(torch.randn(3, *NARROW[name][0]))
        assert logits.shape == (3, 5)
        assert logits.isfinite().all()
        assert logits.std() > 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mlp", (3, 5, 4)),
        ("alexnet", (3, 40, 30)),
        ("resnet20", (1, 28, 28)),
        ("resnet20", (3, 64, 48)),
        ("resnet50", (3, 32, 32)),
        ("vgg16", (1, 64, 96)),
        ("vgg16", (3, 224, 224)),
        ("vgg19_light", (3, 64, 48)),
    ],
)
def test_takes_images_of_other_sizes(name: str, shape: tuple[int, int, int]) -> None:
    net = MODELS[name](shape, 4, width=0.02)
    assert net(torch.randn(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_layer_learns(name: str) -> None:
    torch.manual_seed(0)
    net = narrow(name, activation="leaky_relu")
    F.cross_entropy(net(torch.randn(8, *NARROW[name][0])), torch.arange(8) % 5).backward()
    assert [key for key, p in net.named_parameters() if p.dim() > 1 and (p.grad is None or not p.grad.any())] == []


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_a_stack_of_two_trains_as_each_alone(name: str, activation: str) -> None:
    torch.manual_seed(0)
    nets = [narrow(name, activation=activation).double() for _ in range(2)]
    images = torch.randn(2, 6, *NARROW[name][0], dtype=torch.float64)  # (runs, batch, ...)
    labels = torch.arange(6) % 5
    params, buffers = torch.func.stack_module_state(nets)  # type: ignore[arg-type]
    skeleton = copy.deepcopy(nets[0]).to("meta")

    def loss(params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(skeleton, (params, buffers), (x,)), labels)

    losses = torch.func.vmap(loss)(params, buffers, images)
    losses.sum().backward()
    for run, net in enumerate(nets):
        alone = F.cross_entropy(net(images[run]), labels)
        alone.backward()
        torch.testing.assert_close(losses[run], alone)
        for key, p in net.named_parameters():
            torch.testing.assert_close(params[key].grad[run], p.grad, msg=key)
        for key, b in net.named_buffers():
            torch.testing.assert_close(buffers[key][run], b, msg=key)
            assert not key.endswith("num_batches_tracked") or b == 1


@pytest.mark.parametrize("name", sorted(MODELS))
def test_dropout_is_built_only_when_used(name: str) -> None:
    assert not any(isinstance(m, nn.Dropout) for m in narrow(name).modules())
    shares = [m.p for m in narrow(name, dropout=0.3).modules() if isinstance(m, nn.Dropout)]
    assert shares
    assert set(shares) == {0.3}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_activation_by_name_replaces_every_relu(name: str, activation: str) -> None:
    with torch.device("meta"):
        plain, net = narrow(name, activation="relu"), narrow(name, activation=activation)
    kind = type(ACTIVATIONS[activation]())
    relus = [key for key, m in plain.named_modules() if isinstance(m, nn.ReLU)]
    assert relus
    assert [key for key, m in net.named_modules() if type(m) is kind] == relus  # one module per place, none shared
    assert not any(getattr(m, "inplace", False) for m in net.modules())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_prelu_learns_one_slope_per_place_and_is_never_pruned(name: str) -> None:
    with torch.device("meta"):
        net, plain = narrow(name, activation="prelu"), narrow(name, activation="relu")
    slopes = {f"{key}.weight" for key, module in net.named_modules() if isinstance(module, nn.PReLU)}
    assert slopes == dict(net.named_parameters()).keys() - dict(plain.named_parameters()).keys()
    assert {net.get_parameter(key).shape for key in slopes} == {(1,)}
    assert mask.prunable(net) == mask.prunable(plain)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_an_activation_leaves_zero_at_zero(activation: str) -> None:  # so a pruned filter stays silent behind it
    assert ACTIVATIONS[activation]()(torch.zeros(3)).tolist() == [0.0] * 3


def test_resize_is_bilinear_and_done_once() -> None:
    net = MODELS["alexnet"]((3, 32, 32), 4, width=0.02, resize=64).eval()
    images = torch.randn(2, 3, 32, 32)
    larger = F.interpolate(images, size=64, mode="bilinear")
    torch.testing.assert_close(net(images), net(larger), rtol=0, atol=0)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 5), (7, 7), (14, 14)])
def test_grid_is_adaptive_average_pooling(size: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *size, dtype=torch.float64, requires_grad=True)
    ours, theirs = Grid(7)(images), nn.AdaptiveAvgPool2d(7)(images)
    weight = torch.randn_like(theirs)
    torch.testing.assert_close(ours, theirs)
    grads = [torch.autograd.grad((y * weight).sum(), images)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*grads)
