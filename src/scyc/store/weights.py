"""Plain safetensors files with the same bytes every time, streamed tensor by tensor, checked against a sha256."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from scyc.store import files
from scyc.store.files import Integrity
from scyc.store.journal import parse

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
LONGEST = 100_000_000  # bytes of header that safetensors accepts


@dataclass(frozen=True)
class Payload:
    """A safetensors file that is not in memory: its header, and tensors that are read when their turn comes."""

    header: bytes
    tensors: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        return len(self.header) + sum(tensor.nbytes for tensor in self.tensors)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        yield self.header
        for tensor in self.tensors:
            if tensor.numel():
                flat = tensor.cpu().contiguous().as_strided((tensor.numel(),), (1,))  # a lone value may have stride 0
                yield flat.view(torch.uint8).numpy().data

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for part in self:
            digest.update(part)
        return digest.hexdigest()


def encode(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Payload:
    """Wider types first, as safetensors itself orders them, so that every tensor is aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    fields: dict[str, object] = {"__metadata__": dict(metadata)}
    start = 0
    for name in order:
        tensor = tensors[name]
        if tensor.dtype not in DTYPES or name == "__metadata__":
            raise ValueError(f"tensor {name!r} of {tensor.dtype} cannot be stored; rename or convert it")
        end = start + tensor.nbytes
        fields[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return Payload(len(text).to_bytes(8, "little") + text, tuple(tensors[name] for name in order))


def decode(data: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        raise not_safetensors(path, error) from None


def not_safetensors(path: Path, error: Exception) -> Integrity:
    why = " ".join(str(error).split())
    return Integrity(f"{path}: not a safetensors file ({why}), expected one; restore it from a copy or remove it")


def peek(file: BinaryIO, path: Path) -> tuple[dict[str, str], int]:
    """The metadata that a safetensors file begins with, and the size that it should have."""
    try:
        length = int.from_bytes(file.read(8), "little")
        fields = parse(file.read(min(length, LONGEST)))
        metadata = dict(fields.pop("__metadata__", {}))
        return metadata, 8 + length + max((field["data_offsets"][1] for field in fields.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise not_safetensors(path, error) from None


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Write a file that any safetensors reader opens; the caller keeps the sha256 that comes back."""
    payload = encode(tensors, metadata)
    files.write_parts(path, payload, payload.size)
    return payload.sha256()


def load_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    with files.opened(path) as file:
        size = peek(file, path)[1]
        if (actual := os.fstat(file.fileno()).st_size) != size:  # before it is all read
            raise Integrity(f"{path}: has {actual} bytes, expected {size}; restore it from a copy or remove it")
        file.seek(0)
        data = file.read()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise Integrity(f"{path}: sha256 is {found[:12]}, expected {sha256[:12]}; restore it from a copy or remove it")
    return decode(data, path)
