"""A network as ONNX, with a free batch size, checked image by image against torch in onnxruntime."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from scyc.cost import repeated
from scyc.trained import apart

TOLERANCE = 1e-4  # between torch and onnxruntime, relative to the largest logit where that is above 1
IRREGULAR = 3  # images in a batch of another size, which the graph must take too


def graph(net: nn.Module, images: Tensor) -> tuple[bytes, dict[str, Any]]:  # the file, and how it was checked
    """The graph that onnxruntime runs as torch runs the network in evaluation mode; refused where it does not."""
    onnxruntime = library()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        data = exported(net, repeated(images, 2))
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        off = max(off_torch(session, net, x) for x in (images, repeated(images, IRREGULAR), images[:1]))
    except Exception as error:  # exporter and runtime refuse networks in many ways
        raise ValueError(f"this network cannot be written as ONNX: {root(error)}; nothing was written") from error
    if not off <= TOLERANCE:
        raise ValueError(f"onnxruntime is {off:.2g} off torch, more than {TOLERANCE:g}; nothing was written")
    return data, {"onnxruntime": {"apart": off, "tolerance": TOLERANCE, "images": len(images)}}


def exported(net: nn.Module, images: Tensor) -> bytes:
    with quiet():
        program = torch.onnx.export(
            net,
            (images,),
            dynamo=True,
            verbose=False,
            input_names=["images"],
            output_names=["logits"],
            dynamic_shapes=({0: "batch"},),
        )
    assert program is not None
    data: bytes = bare_(program.model_proto).SerializeToString()
    return data


@torch.no_grad()
def off_torch(session: Any, net: nn.Module, x: Tensor) -> float:
    return apart(torch.from_numpy(session.run(["logits"], {"images": x.numpy()})[0]), net(x))


def library() -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"ONNX needs {error.name}, which is not installed; add it with: pip install 'scyc[onnx]'"
        ) from None
    return onnxruntime


@contextmanager
def quiet() -> Iterator[None]:
    """The exporter speaks of its own machinery; what concerns a user comes as an error."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def bare_(model: Any) -> Any:
    """Without the traces of the machine that it was made on: paths of source files, line by line."""
    for graph in (model.graph, *model.functions):
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
    return model


def root(error: BaseException) -> str:
    """What happened, in a line: the exporter wraps it into advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
